"""Dynamic sizes: as numbers, ranges as long as one of them, and results whose size depends on data."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, ClassVar

import numpy as np

from ...base.dims import Size, Symbol, bounds, is_known
from ...base.dtypes import BOOL, S64
from ...base.size_limits import at_most
from ...base.size_queries import lone_symbol
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.attributes import BoolAttr, IntAttr
from ..ir.axis_attributes import AxisAttr, SizesAttr
from ..ir.computation import Index, Read
from ..ir.graph import Array, Graph, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import FusibleOp
from ..ir.operands import Operand
from ..ir.registry import register
from .movement import Movement


@register("dynamic_sizes")
class DynamicSizes(FusibleOp):
    """The values of dynamic dimensions in this run, as a list of s64."""

    values = SizesAttr("the sizes")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """One number for each."""
        return [LogicalTensor(S64, (len(self.values),))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The numbers; expressions where they are dynamic."""
        dtype = np.int64 if is_known(*self.values) else object
        return [np.array(self.values, dtype)]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The size whose number the index is."""
        values = self.values
        result: Expr = t.as_expr(values[-1]) if values else t.as_expr(0)
        for number, value in reversed(list(enumerate(values[:-1]))):
            result = t.select(t.equal(index[0], number), t.as_expr(value), result)
        return result


@register("count_up")
class CountUp(FusibleOp):
    """start, start + step, start + 2 * step, ...: as many as one dimension, which may be dynamic."""

    size = SizesAttr("how many, as a list of one", count=lambda op: 1)
    start = IntAttr("the first", default=0)
    step = IntAttr("step", default=1)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """S64, of that size."""
        return [LogicalTensor(S64, self.size)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.arange."""
        (count,) = self.outputs[0].details.plain_dims
        return [self.start + self.step * np.arange(count, dtype=np.int64)]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The number at an index."""
        start, step = self.start, self.step
        return index[0] * step + start


@register("true_indices")
class TrueIndices(Op):
    """The indices at which a list of bool is true, followed by zeros, and their number."""

    kind: ClassVar[str] = "loop"

    x = Operand("the list")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """S64 of the size of the list, and one s64. Raise UserError if it is not a list of bool."""
        (x,) = inputs
        if x.dtype != BOOL or x.rank != 1:
            raise self.rule("x must be a list of bool", str(x))
        return [LogicalTensor(S64, x.plain_dims), LogicalTensor(S64, (1,))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.flatnonzero, padded."""
        found = np.flatnonzero(inputs[0])
        indices = np.zeros(inputs[0].shape, np.int64)
        indices[: found.size] = found
        return [indices, np.array([found.size])]


@register("counted_rows")
class CountedRows(Movement):
    """The first rows of x along an axis: as many as a run counted."""

    x = Operand()
    size = SizesAttr("how many rows, as a list of one", count=lambda op: 1)
    axis = AxisAttr("along which rows are counted", default=0)

    def result_dims(self, inputs: Sequence[LogicalTensor]) -> tuple[Any, ...]:
        """Return the dims of x except for the counted axis. Raise UserError if x is certain to have fewer rows."""
        (x,), axis = inputs, self.axis
        if bounds(self.size[0])[0] > bounds(x.plain_dims[axis])[1]:
            raise self.rule(f"x must have {self.size[0]} rows on axis {axis}", str(x))
        return (*x.plain_dims[:axis], self.size[0], *x.plain_dims[axis + 1 :])

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Basic indexing."""
        rows = (*[slice(None)] * self.axis, slice(int(self.size[0])))
        return [np.ascontiguousarray(inputs[0][rows])]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The element at the same index."""
        return reads[0](index)


@register("room_for")
class RoomFor(Movement):
    """x in the corner of a tensor that has room for the largest that x can be: zeros behind it on every axis.

    The sizes of x are those of a run, which some other bound keeps from being larger.
    """

    x = Operand()
    shape = SizesAttr("the larger shape", count=lambda op: op.inputs[0].details.rank)

    def result_dims(self, inputs: Sequence[LogicalTensor]) -> tuple[Any, ...]:
        """The larger shape. Raise UserError if x does not fit into it for sure."""
        (x,) = inputs
        for size, room in zip(x.plain_dims, self.shape, strict=True):
            if bounds(size)[0] > bounds(room)[1]:
                raise self.rule(f"x must fit into {list(self.shape)}", str(x))
        return self.shape

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.pad."""
        (x,) = inputs
        widths = [(0, int(room) - size) for size, room in zip(x.shape, self.shape, strict=True)]
        return [np.pad(x, widths)]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The element at the same index where there is one, else zero."""
        x = self.inputs[0].details
        zero = t.const(0, x.dtype.accumulator)
        shorter = [axis for axis, size in enumerate(x.plain_dims) if size != self.shape[axis]]
        if 0 in x.plain_dims:
            return zero
        position = list(index)
        for axis in shorter:
            last = t.maximum(t.as_expr(x.plain_dims[axis]) - 1, 0)
            position[axis] = t.minimum(index[axis], last)
        value = reads[0](tuple(position))
        for axis in shorter:
            inside = index[axis] < x.plain_dims[axis]
            value = t.select(inside, value, zero)
        return value


@register("count")
class Count(Op):
    """A number that a run computes and later ops use as a dimension.

    What follows may have this size, a dynamic dimension. Memory is planned for `most`; numbers beyond these ends
    count as the nearer one. An `unlimited` number is bounded by nothing that is known before: `most` is then a size
    that the caller chooses, and a caller that finds a larger number in the result repeats the run with more room. One
    that is not in the size's range is an error of the run.
    """

    kind: ClassVar[str] = "loop"

    x = Operand("the number")
    size = SizesAttr("the size that it is, as a list of one", count=lambda op: 1)
    most = SizesAttr("the largest that it can be, as a list of one", count=lambda op: 1)
    unlimited = BoolAttr("whether the caller chooses `most`", default=False)

    @property
    def symbol(self) -> Symbol:
        """The size's name and range."""
        found = lone_symbol(self.size[0])
        if found is None:
            raise self.rule("size must be one dynamic size", str(self.size[0]))
        return found

    @property
    def limit(self) -> Size:
        """`most` itself."""
        limit: Size = self.most[0]
        return limit

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The type of x. Raise UserError if it is not one s64."""
        (x,) = inputs
        if x.dtype != S64 or x.plain_dims != (1,):
            raise self.rule("x must be s64[1]", str(x))
        return [x]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The number within its ends. Raise UserError for an unlimited one that is not in its range."""
        if not self.unlimited:
            return [np.clip(inputs[0], 0, int(self.limit))]
        low, high = bounds(self.size[0])
        high = min(high, int(self.limit)) if is_known(self.limit) else high
        if not low <= inputs[0][0] <= high:
            raise self.rule(f"the size must be in {low}..{high}", str(inputs[0][0]))
        return [inputs[0]]


def largest_counts(graph: Graph, besides: Container[str] = ()) -> dict[str, Size]:
    """The largest value of each size that a run of the graph counts, by name, without those `besides`."""
    found: dict[str, Size] = {}
    for op in graph.ops:
        if isinstance(op, Count) and op.symbol.name not in besides:
            found[op.symbol.name] = at_most(op.limit, found)
    return found
