"""Ops that move elements without computing: reorder, transpose, broadcast, concat, slice, repeat."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...base.size_limits import check_equal
from ...base.size_queries import sizes_text
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.attributes import FormatAttr
from ..ir.axis_attributes import AxisAttr, IntsAttr, PermutationAttr, SizesAttr, rank_of_first
from ..ir.computation import Index, Read
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import FusibleOp
from ..ir.operands import Operand, VariadicOperand
from ..ir.registry import register
from .elementwise import broadcast_index


class Movement(FusibleOp):
    """Base: output element i is one input element, unchanged."""

    operations: ClassVar[int] = 0

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The first input's dtype in the moved shape."""
        return [LogicalTensor(inputs[0].dtype, self.result_dims(inputs))]

    def result_dims(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """Shape of the output."""
        return inputs[0].plain_dims


@register("reorder")
class Reorder(Movement):
    """The same tensor in another layout."""

    x = Operand()
    format = FormatAttr("that of the output")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The input in the wanted format."""
        (x,) = super().infer(inputs)
        if self.format.rank != x.rank:
            raise self.rule(f"format must have the input's rank {x.rank}", f"{self.format}")
        return [x.with_format(self.format)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The plain array itself: layouts do not change values."""
        return [inputs[0]]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The element at the same plain index."""
        return reads[0](index)


@register("transpose")
class Transpose(Movement):
    """Axes permuted."""

    x = Operand()
    perm = PermutationAttr("output axis i is input axis perm[i]")

    def result_dims(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """The input's sizes, permuted."""
        return tuple(inputs[0].plain_dims[axis] for axis in self.perm)

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.transpose."""
        return [
            np.ascontiguousarray(inputs[0].transpose(self.perm)).reshape(
                self.outputs[0].details.plain_dims
            )
        ]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The element whose axis perm[i] is at index i."""
        position = [self.perm.index(axis) for axis in range(len(self.perm))]
        return reads[0](tuple(index[i] for i in position))


@register("broadcast")
class Broadcast(Movement):
    """x repeated along new axes and axes of size 1, as np.broadcast_to."""

    elementwise: ClassVar[bool] = True
    x = Operand()
    shape = SizesAttr("sizes of the result")

    def result_dims(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """The wanted shape."""
        shape, dims = self.shape, inputs[0].plain_dims
        tail = shape[len(shape) - len(dims) :] if len(shape) >= len(dims) else ()
        fits = len(tail) == len(dims) and all(d in (1, s) for d, s in zip(dims, tail, strict=True))
        if not fits or any(size < 0 for size in shape):
            raise self.rule(
                "the input must broadcast to shape", f"{sizes_text(dims)} and {sizes_text(shape)}"
            )
        return shape

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.broadcast_to, as a separate array."""
        return [np.array(np.broadcast_to(inputs[0], self.outputs[0].details.plain_dims))]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The element at index 0 of every repeated axis."""
        dims = self.inputs[0].details.plain_dims
        return reads[0](broadcast_index(index, dims))


@register("concat")
class Concat(Movement):
    """Inputs concatenated along an axis."""

    x = VariadicOperand(least=1)
    axis = AxisAttr("axis of concatenation", default=0)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """Sizes along the axis added up; all other sizes and dtypes agree."""
        axis = self.axis
        for x in inputs[1:]:
            same = [d for i, d in enumerate(inputs[0].plain_dims) if i != axis]
            if (x.dtype, x.rank) != (inputs[0].dtype, inputs[0].rank) or [
                d for i, d in enumerate(x.plain_dims) if i != axis
            ] != same:
                for i, pair in enumerate(zip(inputs[0].plain_dims, x.plain_dims, strict=False)):
                    if i != axis:
                        check_equal(*pair)
                raise self.rule(
                    f"inputs must agree in dtype and in all sizes but that of axis {axis}",
                    f"{inputs[0]} and {x}",
                )
        return super().infer(inputs)

    def result_dims(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """Sizes along the axis added up."""
        axis, dims = self.axis, inputs[0].plain_dims
        return (*dims[:axis], sum(x.plain_dims[axis] for x in inputs), *dims[axis + 1 :])

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.concatenate."""
        return [np.concatenate(inputs, axis=self.axis)]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The input whose range contains the index; the others are read at a clamped index and discarded."""
        axis = self.axis
        sizes = [x.details.plain_dims[axis] for x in self.inputs]
        begins = list(itertools.accumulate(sizes[:-1], initial=0))
        here = index[axis]
        result: Expr | None = None
        for read, begin, size in reversed(list(zip(reads, begins, sizes, strict=True))):
            if size == 0:
                continue
            local = t.maximum(t.minimum(here - begin, size - 1), 0)
            value = read((*index[:axis], local, *index[axis + 1 :]))
            inside = here < begin + size
            result = value if result is None else t.select(inside, value, result)
        # An output without elements is never read, but its code is still generated.
        return reads[0](index) if result is None else result


@register("slice")
class Slice(Movement):
    """x[start], x[start + step], ... on every axis."""

    x = Operand()
    starts = SizesAttr("the first element of each axis", count=rank_of_first)
    steps = IntsAttr("not 0", default=1, count=rank_of_first)
    sizes = SizesAttr("elements taken", count=rank_of_first)

    def _bounds(self, dims: Sequence[int]) -> list[tuple[int, int, int]]:
        bounds = list(zip(self.starts, self.steps, self.sizes, strict=True))
        for axis, (start, step, size) in enumerate(bounds):
            last = start + step * (size - 1)
            low, high = (start, last) if step > 0 else (last, start)
            inside = size == 0 or (low >= 0 and high < dims[axis])
            if size < 0 or step == 0 or not inside:
                raise self.rule(
                    f"the slice of axis {axis} must lie in its {dims[axis]} elements",
                    f"start {start}, step {step}, size {size}",
                )
        return bounds

    def result_dims(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """`sizes`."""
        return tuple(size for _, _, size in self._bounds(inputs[0].plain_dims))

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Basic indexing."""
        result = inputs[0]
        for axis, (start, step, size) in enumerate(self._bounds(inputs[0].shape)):
            result = result.take(start + step * np.arange(size), axis=axis)
        return [result]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The element at start + i * step."""
        bounds = self._bounds(self.inputs[0].details.plain_dims)
        return reads[0](
            tuple(i * step + start for i, (start, step, _) in zip(index, bounds, strict=True))
        )


@register("repeat")
class Repeat(Movement):
    """Every element `counts[axis]` times in a row along each axis, as np.repeat."""

    x = Operand()
    counts = IntsAttr("repetitions of each element per axis, at least 1", count=rank_of_first)

    def result_dims(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """Every size times its count."""
        if any(count < 1 for count in self.counts):
            raise self.rule("counts must be at least 1", str(list(self.counts)))
        return tuple(n * count for n, count in zip(inputs[0].plain_dims, self.counts, strict=True))

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.repeat along each axis."""
        (x,) = inputs
        for axis, count in enumerate(self.counts):
            x = np.repeat(x, count, axis)
        return [np.ascontiguousarray(x)]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The element at the index divided by the counts."""
        return reads[0](tuple(i // count for i, count in zip(index, self.counts, strict=True)))
