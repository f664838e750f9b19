"""Resizing along an axis whose size is known at run time: indices and weights are computed there, in float64.

The formulas and their order are those of `resize` for numbers, so the results have the same bits.
"""

from __future__ import annotations

from functools import partial, reduce

from ...base.dims import Size
from ...base.dtypes import F64, S64
from ...base.errors import UnsupportedError
from ...base.records import dataclass
from ..ir.graph import GraphTensor
from .compose import Composer


@dataclass(frozen=True)
class AxisSampling:
    """An axis of `size` elements with `count` afterwards; `scale` None: the ratio of these.

    `coordinates` as of `resize`; `nearest`: how coordinates are rounded, "" for interpolation, which is linear or, with
    a coefficient, `cubic`; `exclude_outside`: elements outside have no weight.
    """

    size: Size
    count: Size
    scale: float | None
    coordinates: str
    nearest: str
    cubic: float | None = None
    exclude_outside: bool = False


def resampled(make: Composer, how: AxisSampling, x: GraphTensor, axis: int) -> GraphTensor:
    """x with one axis resized."""
    coordinates = _coordinates(make, how)
    if how.nearest:
        return make(
            "gather", x, _index(make, how, _rounded(make, coordinates, how.nearest)), axis=axis
        )
    base = make("floor", coordinates)
    indices, weights = [], []
    for offset in range(2) if how.cubic is None else range(-1, 3):
        index = base if offset == 0 else make("add", base, make.scalar(offset, F64))
        indices.append(_index(make, how, index))
        beside = make("sub", make.scalar(offset, F64), make("sub", coordinates, base))
        weight = _weight(make, how, make("abs", beside))
        if how.exclude_outside:
            inside = make("eq", make.to(indices[-1], F64), index)
            weight = make("select", inside, weight, make.scalar(0, F64))
        weights.append(weight)
    total = reduce(partial(make, "add"), weights)
    parts = []
    for index, weight in zip(indices, weights, strict=True):
        column = make.to(make("div", weight, total), x.details.dtype)
        shape = tuple(how.count if i == axis else 1 for i in range(x.details.rank))
        taken = make("gather", x, index, axis=axis)
        parts.append(make("mul", taken, make("reshape", column, shape=shape)))
    return reduce(partial(make, "add"), parts)


def _weight(make: Composer, how: AxisSampling, distance: GraphTensor) -> GraphTensor:
    """The weight of an element by its distance: of linear interpolation, or Keys' cubic convolution (1981)."""

    def number(value: float) -> GraphTensor:
        return make.scalar(value, F64)

    a = how.cubic
    if a is None:
        return make("sub", number(1), distance)
    near = make("sub", make("mul", number(a + 2), distance), number(a + 3))
    near = make("add", make("mul", near, make("mul", distance, distance)), number(1))
    far = make("add", make("mul", make("sub", distance, number(5)), distance), number(8))
    far = make("mul", number(a), make("sub", make("mul", far, distance), number(4)))
    far = make("select", make("lt", distance, number(2)), far, number(0))
    return make("select", make("le", distance, number(1)), near, far)


def _index(make: Composer, how: AxisSampling, coordinates: GraphTensor) -> GraphTensor:
    """Whole numbers as indices, those outside moved to the border."""
    last = make("sub", make.size(how.size, F64), make.scalar(1, F64))
    inside = make("max", make("min", coordinates, last), make.scalar(0, F64))
    return make.to(inside, S64)


def _coordinates(make: Composer, how: AxisSampling) -> GraphTensor:
    """The coordinate of each element of the result on the axis of the input, f64."""
    size, count = make.size(how.size, F64), make.size(how.count, F64)
    scale = make("div", count, size) if how.scale is None else make.scalar(how.scale, F64)
    i, half, one = (
        make.to(make("count_up", size=(how.count,)), F64),
        make.scalar(0.5, F64),
        make.scalar(1, F64),
    )
    is_one = make("eq", count, one)
    if how.coordinates == "asymmetric":
        return make("div", i, scale)
    if how.coordinates == "align_corners":
        length = make("mul", size, scale)
        step = make("div", make("sub", size, one), make("sub", length, one))
        return make("select", is_one, i, make("mul", i, step))
    moved = make("div", make("add", i, half), scale)
    if how.coordinates == "tf_half_pixel_for_nn":
        return moved
    centered = make("sub", moved, half)
    if how.coordinates == "half_pixel":
        return centered
    if how.coordinates == "half_pixel_symmetric":
        whole = make("div", count, make("mul", size, scale))
        shift = make("mul", make("mul", size, half), make("sub", one, whole))
        return make("sub", make("add", shift, moved), half)
    if how.coordinates == "pytorch_half_pixel":
        return make("select", is_one, i, centered)
    raise UnsupportedError(
        f"resize '{make.owner.name}': coordinates '{how.coordinates}' need the sizes at compile time",
        "give them as numbers",
    )


def _rounded(make: Composer, coordinates: GraphTensor, mode: str) -> GraphTensor:
    if mode in ("floor", "ceil"):
        return make(mode, coordinates)
    half = make.scalar(0.5, F64)
    if mode == "round_prefer_floor":
        return make("ceil", make("sub", coordinates, half))
    return make("floor", make("add", coordinates, half))
