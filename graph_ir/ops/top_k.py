"""top_k: the largest or smallest elements along an axis, in order, and their indices; sort_rows: by radix sort."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from ...base.dims import Size, is_known
from ...base.dtypes import BOOL, S64
from ...base.size_limits import at_least
from ...base.size_queries import typical
from ..ir.attributes import BoolAttr
from ..ir.axis_attributes import AxisAttr, SizeAttr
from ..ir.graph import Array, Graph, GraphTensor, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import CompositeOp
from ..ir.operands import Operand
from ..ir.reference import widen
from ..ir.registry import register
from .compose import Composer
from .reduce import identity

_MAX_ROUNDS = 16
"""Up to this k, elements are selected one at a time; beyond it, every element counts those that precede it."""


def first_in_order_details(op: Op, x: LogicalTensor, axis: int, k: Size) -> list[LogicalTensor]:
    """x with size k on the axis, and s64 of the same shape. Raise UserError if there are fewer than k elements."""
    if not (k >= 0 and at_least(x.plain_dims[axis] - k, 0)):
        raise op.rule(f"k must be in [0, {x.plain_dims[axis]}]", repr(k))
    dims = (*x.plain_dims[:axis], k, *x.plain_dims[axis + 1 :])
    return [LogicalTensor(x.dtype, dims), LogicalTensor(S64, dims)]


def first_in_order(x: Array, axis: int, k: int, largest: bool) -> list[Array]:
    """The first k elements of an axis and their indices: equal elements keep their order, NaN is the largest value."""
    wide = widen(x)
    if largest:
        backwards = np.argsort(np.flip(wide, axis), axis=axis, kind="stable")
        order = x.shape[axis] - 1 - np.flip(backwards, axis)
    else:
        order = np.argsort(wide, axis=axis, kind="stable")
    order = np.take(order, np.arange(k), axis=axis).astype(np.int64)
    return [np.take_along_axis(x, order, axis), order]


@register("top_k")
class TopK(CompositeOp):
    """(values, indices s64) of the first `k` elements of `axis` in descending order.

    Equal elements keep their order: the lowest index first. NaN counts as the largest value.
    """

    x = Operand()
    k = SizeAttr("number of elements to keep")
    axis = AxisAttr("axis to order", default=-1)
    largest = BoolAttr("largest first; otherwise in ascending order", default=True)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """x with size k on the axis, twice."""
        return first_in_order_details(self, inputs[0], self.axis, self.k)

    def reference(self, inputs: list[Array]) -> list[Array]:
        """A stable np.argsort, which puts NaN last, read from the front or from the back."""
        return first_in_order(inputs[0], self.axis, self.k, self.largest)

    def get_gflop(self) -> float:
        """Four operations per element and step."""
        return 4 * self.inputs[0].details.typical.elements * typical(self.k) / 1e9

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """Transpose the axis to the end, order rows there, and transpose back."""
        make = Composer(graph, self)
        if self.outputs[0].details.is_empty:  # nothing to order
            dims = self.outputs[0].details.plain_dims
            first = make("slice", self.x, starts=(0,) * len(dims), sizes=dims)
            return [make("cast", first, dtype=y.details.dtype) for y in self.outputs]
        takes_out = self.largest and is_known(self.k) and self.k <= _MAX_ROUNDS
        order = self._take_out if takes_out else self._count_before

        def ordered(rows: GraphTensor) -> list[GraphTensor]:
            indices = order(make, rows)
            return [make("gather_elements", rows, indices, axis=rows.details.rank - 1), indices]

        return self.by_rows(graph, ordered)

    def by_rows(
        self, graph: Graph, ordered: Callable[[GraphTensor], list[GraphTensor]]
    ) -> list[GraphTensor]:
        """The axis transposed to the end, its rows `ordered` there, and both results transposed back."""
        make, rank, axis = Composer(graph, self), self.x.details.rank, self.axis
        if axis == rank - 1:
            return ordered(self.x)
        perm = (*(i for i in range(rank) if i != axis), axis)
        back = tuple(perm.index(i) for i in range(rank))
        found = ordered(make("transpose", self.x, perm=perm))
        return [make("transpose", y, perm=back) for y in found]

    def _take_out(self, make: Composer, rows: GraphTensor) -> GraphTensor:
        """k times, the largest of the elements after the last one selected."""
        last, size = rows.details.rank - 1, rows.details.plain_dims[-1]
        positions = self._positions(make, rows, size)
        low = make.scalar(
            identity("max", rows.details.dtype) if rows.details.dtype != BOOL else 0,
            rows.details.dtype,
        )
        taken: list[GraphTensor] = []
        rest: GraphTensor | None = None
        for _ in range(self.k):
            candidates = rows if rest is None else make("select", rest, rows, low)
            value = make("reduce_max", candidates, axes=(last,), keep_dims=True)
            hit = _same(make, rows, value)
            hit = hit if rest is None else make("and", hit, rest)
            where = make("select", hit, positions, make.size(size))
            index = make("reduce_min", where, axes=(last,), keep_dims=True)
            taken.append(index)
            behind = make("and", _same(make, rows, value), make("gt", positions, index))
            rest = make("or", _before(make, value, rows, True), behind)
        return taken[0] if len(taken) == 1 else make("concat", *taken, axis=last)

    def _count_before(self, make: Composer, rows: GraphTensor) -> GraphTensor:
        """The rank of element i is the number of elements j that precede it."""
        *outer, size = rows.details.plain_dims
        one = make("reshape", rows, shape=(*outer, size, 1))
        other = make("reshape", rows, shape=(*outer, 1, size))
        mine = make("reshape", self._positions(make, rows, size), shape=(size, 1))
        theirs = make("reshape", self._positions(make, rows, size), shape=(1, size))
        earlier = make("and", _same(make, other, one), make("lt", theirs, mine))
        before = make("or", _before(make, other, one, self.largest), earlier)
        position = make("reduce_sum", make("cast", before, dtype="s64"), axes=(len(outer) + 1,))
        slots = make("reshape", self._positions(make, rows, self.k), shape=(self.k, 1))
        here = make("eq", make("reshape", position, shape=(*outer, 1, size)), slots)
        chosen = make("select", here, theirs, make.scalar(0, S64))
        return make("reduce_sum", chosen, axes=(len(outer) + 1,))

    def _positions(self, make: Composer, rows: GraphTensor, count: Size) -> GraphTensor:
        if not isinstance(count, int):
            return make("count_up", size=(count,))
        steps = np.arange(count, dtype=np.int64)
        return make.graph.make_constant(steps, f"{self.name}.positions")


def _before(make: Composer, a: GraphTensor, b: GraphTensor, largest: bool) -> GraphTensor:
    """Return whether value a precedes b."""
    first = make("gt" if largest else "lt", a, b)
    if not a.details.dtype.is_float:
        return first
    nan, number = (a, b) if largest else (b, a)
    return make("or", first, make("and", make("isnan", nan), make("not", make("isnan", number))))


def _same(make: Composer, a: GraphTensor, b: GraphTensor) -> GraphTensor:
    equal = make("eq", a, b)
    if not a.details.dtype.is_float:
        return equal
    return make("or", equal, make("and", make("isnan", a), make("isnan", b)))


@register("sort_rows")
class SortRows(Op):
    """(values, indices s64) of the first `k` elements of each row, as `top_k` means them, by radix sort.

    Few of many are selected first.
    """

    kind: ClassVar[str] = "loop"
    operations: ClassVar[int] = 10  # the key, and a count and a move for each of four digits
    x = Operand()
    k = SizeAttr("number of elements to keep")
    largest = BoolAttr("largest first; otherwise in ascending order", default=True)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """x with rows of k, twice."""
        (x,) = inputs
        if not x.rank:
            raise self.rule("the input must have rows", f"{x}")
        return first_in_order_details(self, x, x.rank - 1, self.k)

    def reference(self, inputs: list[Array]) -> list[Array]:
        """A stable np.argsort."""
        return first_in_order(inputs[0], inputs[0].ndim - 1, self.k, self.largest)
