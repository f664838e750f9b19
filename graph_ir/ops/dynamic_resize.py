"""Resizing along an axis whose size is known at run time: indices and weights are computed there, in f64, those of
nearest in f32.

The formulas and their order are those of `resize` for numbers, so the results have the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...base.dims import Size
from ...base.dtypes import F32, F64, S64, DType
from ...base.records import dataclass
from ..ir.graph import GraphTensor
from .compose import Composer


@dataclass(frozen=True)
class AxisSampling:
    """An axis of `size` elements with `count` afterwards; `scale` None: the ratio of these.

    `coordinates` as of `resize`; `nearest`: how coordinates are rounded, "" for interpolation, which is linear or, with
    a coefficient, `cubic`; `exclude_outside`: elements outside have no weight; `antialias`: filters are as wide as the
    step; `roi`: the relative start and end, f64, of what is sampled, outside of which all is `extrapolation`;
    `by_step`: coordinates are multiplied by the step instead of divided by the scale.
    """

    size: Size
    count: Size
    scale: float | None
    coordinates: str
    nearest: str
    cubic: float | None = None
    exclude_outside: bool = False
    antialias: bool = False
    roi: Sequence[GraphTensor] | None = None
    extrapolation: float = 0.0
    by_step: bool = False

    @property
    def dtype(self) -> DType:
        """The dtype of coordinates."""
        return F32 if self.nearest else F64


def resampled(make: Composer, how: AxisSampling, x: GraphTensor, axis: int) -> GraphTensor:
    """x with one axis resized."""
    coordinates = _coordinates(make, how)
    if how.nearest:
        index = _index(make, how, _rounded(make, coordinates, how.nearest))
        value = make("gather", x, index, axis=axis)
    elif how.antialias:
        value = weighted_by_matrix(make, _filters(make, how, coordinates, x.details.dtype), x, axis)
    else:
        value = _interpolated(make, how, x, axis, coordinates)
    if how.roi is None:
        return value
    last = make("sub", make.size(how.size, how.dtype), make.scalar(1, how.dtype))
    inside = make(
        "and",
        make("ge", coordinates, make.scalar(0, how.dtype)),
        make("le", coordinates, last),
    )
    fill = make.scalar(how.extrapolation, x.details.dtype)
    return make("select", make("reshape", inside, shape=_along(how.count, axis, x)), value, fill)


def weighted_by_matrix(
    make: Composer, matrix: GraphTensor, x: GraphTensor, axis: int
) -> GraphTensor:
    """The axis as the rows of matrices, multiplied by the weights [count, size] as one matrix."""
    dims, count = x.details.plain_dims, matrix.details.plain_dims[0]
    before, after = math.prod(dims[:axis]), math.prod(dims[axis + 1 :])
    rows = make("reshape", x, shape=(before, dims[axis], after))
    result = make("matmul_core", matrix, rows)
    return make("reshape", result, shape=(*dims[:axis], count, *dims[axis + 1 :]))


def _along(count: Size, axis: int, x: GraphTensor) -> tuple[Size, ...]:
    """The shape of a list that belongs to an axis of x."""
    return tuple(count if i == axis else 1 for i in range(x.details.rank))


def _filters(
    make: Composer, how: AxisSampling, coordinates: GraphTensor, dtype: DType
) -> GraphTensor:
    """The weights [count, size] of filters that are widened to the step where the result is smaller."""
    one = make.scalar(1, F64)
    step = make("min", _scale(make, how), one)
    center = make("reshape", coordinates, shape=(how.count, 1))

    def weights(first: Size, count: Size) -> GraphTensor:
        elements = make.to(make("count_up", size=(count,)), F64)
        elements = make("add", elements, make.size(first, F64))
        distance = make("mul", make("abs", make("sub", elements, center)), step)
        return (
            make("max", _weight(make, how, distance), make.scalar(0, F64))
            if how.cubic is None
            else _weight(make, how, distance)
        )

    def total(part: GraphTensor) -> GraphTensor:
        return make("reduce_sum", part, axes=(1,), keep_dims=True)

    inside = weights(0, how.size)
    if not how.exclude_outside:  # elements outside are those at the border
        reach = how.size * (1 if how.cubic is None else 2)
        index, last = make("count_up", size=(how.size,)), make.size(how.size - 1)
        for border, first in ((make.scalar(0, S64), -reach), (last, how.size)):
            outside = make(
                "select",
                make("eq", index, border),
                total(weights(first, reach)),
                make.scalar(0, F64),
            )
            inside = make("add", inside, outside)
    return make.to(make("div", inside, total(inside)), dtype)


def _interpolated(
    make: Composer, how: AxisSampling, x: GraphTensor, axis: int, coordinates: GraphTensor
) -> GraphTensor:
    """The weighted sum of the two or four elements around each coordinate."""
    numbers = np.arange(2.0) if how.cubic is None else np.arange(-1.0, 3)
    offsets, base = make.constant(numbers[:, None]), make("floor", coordinates)
    around = make("add", base, offsets)  # [taps, count], as everything below
    indices = _index(make, how, around)
    beside = make("sub", offsets, make("sub", coordinates, base))
    weights = _weight(make, how, make("abs", beside))
    if how.exclude_outside:
        inside = make("eq", make.to(indices, F64), around)
        weights = make("select", inside, weights, make.scalar(0, F64))
    total = make("reduce_sum", weights, axes=(0,), keep_dims=True)
    columns = make.to(make("div", weights, total), x.details.dtype)
    behind = (1,) * (x.details.rank - axis - 1)
    columns = make("reshape", columns, shape=(len(numbers), how.count, *behind))
    taken = make("mul", make("gather", x, indices, axis=axis), columns)
    return make("reduce_sum", taken, axes=(axis,), keep_dims=False)


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
    """Integers as indices, those outside moved to the border."""
    last = make("sub", make.size(how.size, how.dtype), make.scalar(1, how.dtype))
    inside = make("max", make("min", coordinates, last), make.scalar(0, how.dtype))
    return make.to(inside, S64)


def _scale(make: Composer, how: AxisSampling) -> GraphTensor:
    """The ratio of the sizes, or the scale that is given."""
    if how.scale is not None:
        return make.scalar(how.scale, how.dtype)
    return make("div", make.size(how.count, how.dtype), make.size(how.size, how.dtype))


def _coordinates(make: Composer, how: AxisSampling) -> GraphTensor:
    """The coordinate of each element of the result on the axis of the input."""
    size, count, scale = (
        make.size(how.size, how.dtype),
        make.size(how.count, how.dtype),
        _scale(make, how),
    )
    half, one = (make.scalar(number, how.dtype) for number in (0.5, 1))
    i = make.to(make("count_up", size=(how.count,)), how.dtype)
    is_one = make("eq", count, one)

    def at(position: GraphTensor) -> GraphTensor:
        if not how.by_step:
            return make("div", position, scale)
        if how.scale is None:
            return make("mul", position, make("div", size, count))
        return make("mul", position, make.scalar(1 / how.scale, how.dtype))

    if how.coordinates == "asymmetric":
        return at(i)
    if how.coordinates in ("align_corners", "tf_crop_and_resize"):
        last = make("sub", size, one)
        behind = make("sub", make("mul", size, scale), one)
        if how.roi is None:
            return make("select", is_one, i, make("div", make("mul", i, last), behind))
        start, end = how.roi
        center = make("mul", make("add", start, end), make.scalar(0.5, F64))
        begin, middle, span = (
            make("mul", last, make.to(part, how.dtype))
            for part in (start, center, make("sub", end, start))
        )
        moved = make("div", make("mul", i, span), behind)
        return make("select", is_one, middle, make("add", begin, moved))
    moved = at(make("add", i, half))
    if how.coordinates == "tf_half_pixel_for_nn":
        return moved
    centered = make("sub", moved, half)
    if how.coordinates == "half_pixel_symmetric":
        whole = make("div", count, make("mul", size, scale))
        shift = make("mul", make("mul", size, half), make("sub", one, whole))
        return make("sub", make("add", shift, moved), half)
    if how.coordinates == "pytorch_half_pixel":
        return make("select", is_one, i, centered)
    return centered


def _rounded(make: Composer, coordinates: GraphTensor, mode: str) -> GraphTensor:
    if mode in ("floor", "ceil"):
        return make(mode, coordinates)
    half = make.scalar(0.5, F32)
    if mode == "round_prefer_floor":
        return make("ceil", make("sub", coordinates, half))
    return make("floor", make("add", coordinates, half))
