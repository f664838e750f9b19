"""Ops that move elements without computing: reorder, transpose, broadcast, concat, slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.computation import Computation, Index, Pointwise, Read
from ..ir.format import Format
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import FusibleOp
from ..ir.registry import register
from .axes import normal_axis
from .elementwise import broadcast_index


class Movement(FusibleOp):
    """Base: output element i is one input element, unchanged."""

    input_count: ClassVar[int | None] = 1

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The first input's dtype in the moved shape."""
        if self.input_count is not None and len(inputs) != self.input_count:
            raise self.rule(
                f"inputs must be {', '.join(self.input_names)}", f"{len(inputs)} inputs"
            )
        return [LogicalTensor(inputs[0].dtype, self.shape(inputs))]

    def shape(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """Shape of the output."""
        return inputs[0].plain_dims

    def get_gflop(self) -> float:
        """Nothing is computed."""
        return 0.0

    def integers(self, name: str, count: int | None = None) -> tuple[int, ...]:
        """Attribute `name` as a tuple of ints, of length `count` if given."""
        value: Any = self.attrs.get(name)
        is_list = isinstance(value, (tuple, list)) and all(
            isinstance(i, (int, np.integer)) for i in value
        )
        if not is_list:
            raise self.rule(f"attribute '{name}' must be a list of integers", repr(value))
        if count is not None and len(value) != count:
            raise self.rule(
                f"{name} must have one entry for each of the {count} axes", str(list(value))
            )
        return tuple(int(i) for i in value)


@register("reorder")
class Reorder(Movement):
    """The same tensor in another layout. attrs: `format` (Format)."""

    @property
    def format(self) -> Format:
        """Layout of the output."""
        value = self.attrs.get("format")
        if not isinstance(value, Format):
            raise self.rule("attribute 'format' must be a layout", repr(value))
        return value

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The input in the wanted format."""
        (x,) = super().infer(inputs)
        if self.format.rank != x.rank:
            raise self.rule(f"format must have the input's rank {x.rank}", f"{self.format}")
        return [x.with_format(self.format)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The plain array itself: layouts do not change values."""
        return [inputs[0]]

    def computation(self) -> Computation:
        """The element at the same plain index."""
        return Pointwise(lambda reads, index: reads[0](index))


@register("transpose")
class Transpose(Movement):
    """Axes permuted. attrs: `perm`: output axis i is input axis perm[i]."""

    @property
    def perm(self) -> tuple[int, ...]:
        """The permutation, none negative."""
        return self._perm(self.inputs[0].details.rank)

    def _perm(self, rank: int) -> tuple[int, ...]:
        given = self.integers("perm", rank)
        perm = tuple(normal_axis(self, axis, rank) for axis in given)
        if len(set(perm)) != rank:
            raise self.rule(f"perm must name each of the {rank} axes once", str(list(given)))
        return perm

    def shape(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """The input's sizes, permuted."""
        return tuple(inputs[0].plain_dims[axis] for axis in self._perm(inputs[0].rank))

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.transpose."""
        return [
            np.ascontiguousarray(inputs[0].transpose(self.perm)).reshape(
                self.outputs[0].details.plain_dims
            )
        ]

    def computation(self) -> Computation:
        """The element whose axis perm[i] is at index i."""
        position = [self.perm.index(axis) for axis in range(len(self.perm))]
        return Pointwise(lambda reads, index: reads[0](tuple(index[i] for i in position)))


@register("broadcast")
class Broadcast(Movement):
    """x repeated along new axes and axes of size 1, as np.broadcast_to. attrs: `shape`."""

    elementwise: ClassVar[bool] = True

    def shape(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """The wanted shape."""
        shape, dims = self.integers("shape"), inputs[0].plain_dims
        tail = shape[len(shape) - len(dims) :] if len(shape) >= len(dims) else ()
        fits = len(tail) == len(dims) and all(d in (1, s) for d, s in zip(dims, tail, strict=True))
        if not fits or any(size < 0 for size in shape):
            raise self.rule("the input must broadcast to shape", f"{list(dims)} and {list(shape)}")
        return shape

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.broadcast_to, as a separate array."""
        return [np.array(np.broadcast_to(inputs[0], self.outputs[0].details.plain_dims))]

    def computation(self) -> Computation:
        """The element at index 0 of every repeated axis."""
        dims = self.inputs[0].details.plain_dims
        return Pointwise(lambda reads, index: reads[0](broadcast_index(index, dims)))


@register("concat")
class Concat(Movement):
    """Inputs concatenated along an axis. attrs: `axis`."""

    input_count: ClassVar[int | None] = None

    @property
    def axis(self) -> int:
        """The concatenation axis, not negative."""
        return self._axis(self.inputs[0].details.rank)

    def _axis(self, rank: int) -> int:
        return normal_axis(self, self.attrs.get("axis", 0), rank)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """Sizes along the axis added up; all other sizes and dtypes agree."""
        if not inputs:
            raise self.rule("there must be at least one input", "none")
        axis = self._axis(inputs[0].rank)
        for x in inputs[1:]:
            same = [d for i, d in enumerate(inputs[0].plain_dims) if i != axis]
            if (
                x.dtype != inputs[0].dtype
                or [d for i, d in enumerate(x.plain_dims) if i != axis] != same
            ):
                raise self.rule(
                    f"inputs must agree in dtype and in all sizes but that of axis {axis}",
                    f"{inputs[0]} and {x}",
                )
        return super().infer(inputs)

    def shape(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """Sizes along the axis added up."""
        axis, dims = self._axis(inputs[0].rank), inputs[0].plain_dims
        return (*dims[:axis], sum(x.plain_dims[axis] for x in inputs), *dims[axis + 1 :])

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.concatenate."""
        return [np.concatenate(inputs, axis=self.axis)]

    def computation(self) -> Computation:
        """The input whose range contains the index; the others are read at a clamped index and discarded."""
        axis = self.axis
        sizes = [x.details.plain_dims[axis] for x in self.inputs]
        begins = [sum(sizes[:i]) for i in range(len(sizes))]

        def element(reads: Sequence[Read], index: Index) -> Expr:
            here = index[axis]
            result: Expr | None = None
            for read, begin, size in reversed(list(zip(reads, begins, sizes, strict=True))):
                if not size:
                    continue
                local = t.minimum(t.maximum(t.sub(here, begin), 0), size - 1)
                value = read((*index[:axis], local, *index[axis + 1 :]))
                inside = t.compare("lt", here, begin + size)
                result = value if result is None else t.select(inside, value, result)
            # An output without elements is never read, but its code is still generated.
            return reads[0](index) if result is None else result

        return Pointwise(element)


@register("slice")
class Slice(Movement):
    """x[start], x[start + step], ... on every axis. attrs: `starts`, `steps` (not 0), `sizes`, one entry per axis."""

    def _bounds(self, dims: Sequence[int]) -> list[tuple[int, int, int]]:
        rank = len(dims)
        starts, sizes = self.integers("starts", rank), self.integers("sizes", rank)
        steps = self.integers("steps", rank) if "steps" in self.attrs else (1,) * rank
        bounds = list(zip(starts, steps, sizes, strict=True))
        for axis, (start, step, size) in enumerate(bounds):
            last = start + step * (size - 1)
            inside = size == 0 or (0 <= start < dims[axis] and 0 <= last < dims[axis])
            if size < 0 or step == 0 or not inside:
                raise self.rule(
                    f"the slice of axis {axis} must lie in its {dims[axis]} elements",
                    f"start {start}, step {step}, size {size}",
                )
        return bounds

    def shape(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """`sizes`."""
        return tuple(size for _, _, size in self._bounds(inputs[0].plain_dims))

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Basic indexing."""
        result = inputs[0]
        for axis, (start, step, size) in enumerate(self._bounds(inputs[0].shape)):
            result = result.take(start + step * np.arange(size), axis=axis)
        return [result]

    def computation(self) -> Computation:
        """The element at start + i * step."""
        bounds = self._bounds(self.inputs[0].details.plain_dims)

        def element(reads: Sequence[Read], index: Index) -> Expr:
            return reads[0](
                tuple(
                    t.add(t.mul(i, step), start)
                    for i, (start, step, _) in zip(index, bounds, strict=True)
                )
            )

        return Pointwise(element)
