"""Results of branches whose shapes differ: each is put into room for the largest, and its sizes are counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from ....base.dims import Limit, Size, bounds, symbols_of
from ....base.records import dataclass
from ....base.size_limits import at_most, larger
from ....graph_ir.ir.graph import Graph
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ....graph_ir.ir.logical_tensor import LogicalTensor
from ....graph_ir.ops.dynamic_sizes import largest_counts
from ...op_builder import OpBuilder
from .indexing import dynamic_size


@dataclass(frozen=True)
class CommonType:
    """The type that one result of several graphs is returned in, and the axes whose sizes depend on the run, each with
    the least size that a graph gives it."""

    details: LogicalTensor
    counted: Mapping[int, int]

    def returned(self, node: OpBuilder, result: Tensor) -> list[Tensor]:
        """Inside a graph: the result in this type, then its size on each of those axes."""
        if not self.counted:
            return [result]
        sizes = [dynamic_size(node, result.details.plain_dims[axis]) for axis in self.counted]
        return [node.helper("room_for", result, shape=self.details.plain_dims), *sizes]

    def received(self, node: OpBuilder, results: Sequence[Tensor]) -> Tensor:
        """Outside: the result, of sizes that a run counts."""
        whole, *numbers = results
        for (axis, least), number in zip(self.counted.items(), numbers, strict=True):
            size = node.counted(number, self.details.plain_dims[axis], within=Limit(least))
            whole = node.helper("counted_rows", whole, size=(size,), axis=axis)
        return whole


def common_type(
    graphs: Sequence[Graph], results: Sequence[LogicalTensor], inside: set[str]
) -> CommonType | None:
    """Return the common type of one result of each graph; None if they differ in more than sizes.

    `inside`: the names of the sizes that mean something in a graph only.
    """
    first = results[0]
    if any((one.dtype, one.rank) != (first.dtype, first.rank) for one in results):
        return None
    limits = [largest_counts(graph) for graph in graphs]
    dims: list[Size] = []
    counted: dict[int, int] = {}
    for axis, sizes in enumerate(zip(*(one.plain_dims for one in results), strict=True)):
        if len(set(sizes)) == 1 and not any(s.name in inside for s in symbols_of(sizes)):
            dims.append(sizes[0])
            continue
        counted[axis] = min(bounds(size)[0] for size in sizes)
        rooms = (at_most(size, most) for size, most in zip(sizes, limits, strict=True))
        dims.append(reduce(larger, rooms))
    return CommonType(LogicalTensor(first.dtype, tuple(dims)), counted)


def counted_inside(graphs: Sequence[Graph]) -> set[str]:
    """The names of the sizes that the graphs count."""
    return {name for graph in graphs for name in largest_counts(graph)}
