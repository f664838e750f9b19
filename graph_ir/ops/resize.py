"""resize: nearest, linear and cubic interpolation, one axis after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dims import is_known
from ...base.dtypes import F64
from ...base.records import dataclass
from ...base.size_limits import at_least
from ...base.size_queries import is_multiple
from ..ir.attributes import BoolAttr, ChoiceAttr, FloatAttr, optional
from ..ir.axis_attributes import FloatsAttr, SizesAttr, rank_of_first
from ..ir.graph import Array, Graph, GraphTensor
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import CompositeOp
from ..ir.operands import Operand, OptionalOperand
from ..ir.reference import narrow, widen
from ..ir.registry import register
from .compose import Composer
from .dynamic_resize import AxisSampling, resampled, weighted_by_matrix

MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
SAMPLE = 16
"""The size of an axis whose taps say how all sizes are repeated."""
Roi = Sequence[float] | None
_MAX_TAPS = 4
"""Maximum number of elements that are weighted individually; wider filters (antialiasing) are a matmul with a
weight matrix."""


@dataclass(frozen=True)
class Taps:
    """The taps of one resized axis: element i is the sum over j of `weights[i, j]` times element `indices[i, j]`.

    `inside[i]`: whether element i is inside the input; else it is the extrapolation value.
    """

    indices: Array
    weights: Array
    inside: Array


@register("resize")
class Resize(CompositeOp):
    """x sampled at other coordinates.

    Linear and cubic take floats; 16-bit floats are computed in f32.
    """

    x = Operand()
    region = OptionalOperand("of tf_crop_and_resize: starts, then ends, relative to x, f64[2*rank]")
    shape = SizesAttr("sizes of the result", count=rank_of_first)
    scales = optional(
        FloatsAttr("result / input where it is not the ratio of the sizes", count=rank_of_first)
    )
    mode = ChoiceAttr("interpolation", *MODES)
    nearest_mode = ChoiceAttr("rounding of mode nearest", *NEAREST)
    cubic_coeff = FloatAttr("coefficient of the cubic kernel", default=-0.75)
    exclude_outside = BoolAttr(
        "drop weights outside x and rescale the others; otherwise clamp to the border"
    )
    coordinates = ChoiceAttr("coordinate transformation, by ONNX's names", *COORDINATES)
    antialias = BoolAttr("widen filters to the step where the result is smaller")
    extrapolation = FloatAttr("of tf_crop_and_resize: elements outside x", default=0.0)
    by_step = BoolAttr("multiply by the reciprocal of the scale, as PyTorch does")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """x's dtype in `shape`."""
        x, *region = inputs
        if self.mode != "nearest" and not x.dtype.is_float:
            raise self.rule(
                "input dtype of linear and cubic must be a float", str(x.dtype), "insert a cast"
            )
        if not all(at_least(size, 1) for size in self.shape) or x.is_empty:
            raise self.rule("the input and the result must have elements", f"{x} and {self.shape}")
        if self.scales is not None and any(not 0 < scale < math.inf for scale in self.scales):
            raise self.rule("scales must be positive", str(list(self.scales)))
        wanted = [LogicalTensor(F64, (2 * x.rank,))] * (self.coordinates == "tf_crop_and_resize")
        if region != wanted:
            texts = [", ".join(map(str, types)) or "none" for types in (wanted, region)]
            raise self.rule(f"the region of {self.coordinates} must be {texts[0]}", texts[1])
        return [LogicalTensor(x.dtype, self.shape)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Weighted sums axis by axis, in float64."""
        value = widen(inputs[0])
        nearest = self.mode == "nearest"
        roi = inputs[1].tolist() if len(inputs) > 1 else None
        for axis in self._order():
            taps = self.taps(axis, roi=roi)
            along = tuple(-1 if i == axis else 1 for i in range(value.ndim))
            with np.errstate(all="ignore"):
                parts: Any = (
                    np.take(value, taps.indices[:, j], axis)
                    * (1 if nearest else taps.weights[:, j].reshape(along))
                    for j in range(taps.indices.shape[1])
                )
                value = sum(parts, start=next(parts))
            fill = np.asarray(self.extrapolation).astype(value.dtype)
            value = np.where(taps.inside.reshape(along), value, fill)
        return [narrow(value, self.outputs[0].details.dtype)]

    def get_gflop(self) -> float:
        """Two operations per weighted element."""
        return 0.0 if self.mode == "nearest" else 8 * super().get_gflop()

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """Return gathers along each axis, weighted and summed, or a matmul with a matrix of weights."""
        make = Composer(graph, self)
        value = self.inputs[0]
        if self.mode != "nearest":
            value = make.widened(value)
        counts = self._counts()
        if any(count > 1 for count in counts):
            value = make("repeat", value, counts=counts)
        for axis in self._order():
            if counts[axis] == 1:
                value = self._resampled(make, value, axis)
        return [make.to(value, self.outputs[0].details.dtype)]

    def _counts(self) -> tuple[int, ...]:
        """Return the repeat count of the elements of each axis, 1 for an axis that is resized otherwise or not
        at all."""
        counts = [1] * self.inputs[0].details.rank
        for axis in self._order() if self.mode == "nearest" and self._is_known_region else ():
            size, count = self._sample(axis)
            if size < 1 or count % size:
                continue
            taps = self.taps(axis, size, count)
            repeated = np.repeat(np.arange(size), count // size)[:, None]
            if taps.inside.all() and np.array_equal(taps.indices, repeated):
                counts[axis] = max(count // size, 1)
        return tuple(counts)

    def _sample(self, axis: int) -> tuple[int, int]:
        """The sizes of an axis before and after; of a dynamic one that grows by a whole factor, numbers that do too.

        How far an element is from where it comes from does not depend on the sizes then. (0, 0) for other dynamic ones.
        """
        size, count = self._sizes(axis)
        if is_known(size, count):
            return size, count
        if not is_multiple(count, size) or not is_known(count // size):
            return 0, 0
        return SAMPLE, SAMPLE * (count // size)

    def _sizes(self, axis: int) -> tuple[Any, Any]:
        """The sizes of an axis of the input and of the result."""
        x, y = self.inputs[0].details, self.outputs[0].details
        return x.plain_dims[axis], y.plain_dims[axis]

    def _resampled(self, make: Composer, x: GraphTensor, axis: int) -> GraphTensor:
        """x with one axis resized."""
        if not is_known(*self._sizes(axis)) or not self._is_known_region:
            return resampled(make, self._axis_sampling(make, axis), x, axis)
        taps, dtype = self.taps(axis), x.details.dtype
        along = tuple(-1 if i == axis else 1 for i in range(x.details.rank))
        used = [j for j in range(taps.indices.shape[1]) if taps.weights[:, j].any()]

        def constant(value: Array, what: str) -> GraphTensor:
            return make.graph.make_constant(np.ascontiguousarray(value), f"{self.name}.{what}")

        if len(used) > _MAX_TAPS:
            dense = np.zeros((len(taps.indices), x.details.plain_dims[axis]))
            np.add.at(dense, (np.arange(len(dense))[:, None], taps.indices), taps.weights)
            matrix = constant(dense.astype(dtype.numpy), "weights")
            value = weighted_by_matrix(make, matrix, x, axis)
        else:
            parts = []
            for j in used:
                part = make("gather", x, constant(taps.indices[:, j], "indices"), axis=axis)
                weights = taps.weights[:, j]
                if not (weights == 1).all():
                    column = weights.reshape(along).astype(dtype.numpy)
                    part = make("mul", part, constant(column, "weights"))
                parts.append(part)
            value = parts[0]
            for part in parts[1:]:
                value = make("add", value, part)
        if taps.inside.all():
            return value
        inside = constant(taps.inside.reshape(along), "inside")
        return make("select", inside, value, make.scalar(self.extrapolation, dtype))

    def _axis_sampling(self, make: Composer, axis: int) -> AxisSampling:
        """Return the sampling of an axis whose size or region only a run knows."""
        is_nearest, region = self.mode == "nearest", self.region
        starts = () if region is None else (axis, axis + len(self.shape))
        ends = [make("slice", region, starts=(i,), sizes=(1,)) for i in starts if region]
        return AxisSampling(
            *self._sizes(axis),
            None if self.scales is None else self.scales[axis],
            self.coordinates,
            self.nearest_mode if is_nearest else "",
            self.cubic_coeff if self.mode == "cubic" else None,
            self.exclude_outside,
            self.antialias and not is_nearest,
            ends or None,
            self.extrapolation,
            self.by_step,
        )

    @property
    def _is_known_region(self) -> bool:
        """Return whether the region is a constant, or none is needed."""
        return self.region is None or self.region.is_constant

    def _roi(self, axis: int, roi: Roi = None) -> tuple[float, float]:
        """The start and end of the sampled part of an axis: of a known region, or of the one given."""
        if self.region is None:
            return 0.0, 1.0
        ends = self.region.producer_owner.attr("value").tolist() if roi is None else roi
        return ends[axis], ends[axis + len(ends) // 2]

    def taps(
        self, axis: int, size: int | None = None, count: int | None = None, roi: Roi = None
    ) -> Taps:
        """The taps of one axis of the result; of other sizes or another region, if they are given."""
        if size is None or count is None:
            size, count = self._sizes(axis)
        scale = self._scale(axis, size, count)
        coordinate = self._coordinates(axis, size, count, roi=roi)
        mode = self.mode
        crops = self.coordinates == "tf_crop_and_resize"
        inside = (
            (coordinate >= 0) & (coordinate <= size - 1)
            if crops
            else np.ones(len(coordinate), bool)
        )
        if mode == "nearest":
            indices = _rounded(coordinate, self.nearest_mode)[:, None]
            weights = np.ones(indices.shape)
        else:
            step = min(scale, 1.0) if self.antialias else 1.0
            reach = 1 if mode == "linear" else 2
            start = math.floor(-reach / step) + 1
            base = np.floor(coordinate)
            offsets = np.arange(start, 2 - start)
            distance = np.abs((offsets - (coordinate - base)[:, None]) * step)
            weights = (
                np.clip(1 - distance, 0, 1)
                if mode == "linear"
                else _cubic(distance, self.cubic_coeff)
            )
            indices = base[:, None] + offsets
            if self.exclude_outside:
                weights = np.where((indices >= 0) & (indices < size), weights, 0.0)
            weights = weights / weights.sum(1, keepdims=True)
        return Taps(np.clip(indices, 0, size - 1).astype(np.int64), weights, inside)

    @property
    def ignored_attributes(self) -> tuple[str, ...]:
        """Attributes that do not matter: one or two taps clamped to a border element weigh as much as that one."""
        if self.mode == "nearest":
            return ("exclude_outside", "antialias")
        return () if self.mode == "cubic" or self.antialias else ("exclude_outside",)

    @property
    def is_same_by_step(self) -> bool:
        """Return whether `by_step` does not matter: some programs divide by the scale, others multiply by the step."""
        if self.mode != "nearest":
            return True
        for axis in range(len(self.shape)):
            size, count = self._sizes(axis)
            if not is_known(size, count):
                if size != count:
                    return False
                continue
            divided, multiplied = (
                np.clip(
                    _rounded(self._coordinates(axis, size, count, how), self.nearest_mode),
                    0,
                    size - 1,
                )
                for how in (False, True)
            )
            if not np.array_equal(divided, multiplied):
                return False
        return True

    def _coordinates(
        self, axis: int, size: int, count: int, by_step: bool | None = None, roi: Roi = None
    ) -> Array:
        """The coordinate of each result element on an axis of the input: nearest in f32, as ONNX Runtime and PyTorch
        compute it, else in f64."""
        real: Any = np.float32 if self.mode == "nearest" else np.float64
        kind = self.coordinates
        scale = real(count) / real(size) if self.scales is None else real(self.scales[axis])
        step = real(size) / real(count) if self.scales is None else real(1 / self.scales[axis])
        i, half = np.arange(count, dtype=real), real(0.5)
        by_step = self.by_step if by_step is None else by_step

        def at(position: Array) -> Array:
            return position * step if by_step else position / scale

        # The result size that ONNX's own tests assume if the scale does not give an integer.
        length = real(size) * scale
        if kind in ("align_corners", "tf_crop_and_resize"):
            start, end = self._roi(axis, roi)
            if count == 1:
                return i if kind == "align_corners" else i + real((start + end) / 2 * (size - 1))
            return real(start * (size - 1)) + i * real((size - 1) * (end - start)) / (length - 1)
        if kind == "asymmetric":
            return at(i)
        if kind == "tf_half_pixel_for_nn":
            return at(i + half)
        if kind == "pytorch_half_pixel" and count == 1:
            return i
        symmetric = kind == "half_pixel_symmetric"
        shift = real(size) * half * (1 - real(count) / length) if symmetric else real(0)
        return shift + at(i + half) - half

    def _order(self) -> list[int]:
        """The axes that are resampled, those that shrink first: of dynamic sizes, typical ones."""
        dims, shape = (x.details.typical.plain_dims for x in (self.inputs[0], self.outputs[0]))
        moved = [axis for axis in range(len(dims)) if not self._is_identity(axis)]
        return sorted(moved, key=lambda axis: shape[axis] / dims[axis])

    def _is_identity(self, axis: int) -> bool:
        size, count = self._sizes(axis)
        if not self._is_known_region:
            return False
        if not is_known(size, count):
            whole = self._roi(axis) == (0.0, 1.0)
            return size == count and whole and (self.scales is None or self.scales[axis] == 1)
        return np.array_equal(self._coordinates(axis, size, count), np.arange(size))

    def _scale(self, axis: int, size: int, count: int) -> float:
        return count / size if self.scales is None else self.scales[axis]


def _rounded(position: Array, mode: str) -> Array:
    if mode == "floor":
        return np.floor(position)
    if mode == "ceil":
        return np.ceil(position)
    return np.ceil(position - 0.5) if mode == "round_prefer_floor" else np.floor(position + 0.5)


def _cubic(distance: Array, a: float) -> Array:
    """The cubic convolution kernel of coefficient `a` (Keys 1981)."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = a * (((distance - 5) * distance + 8) * distance - 4)
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
