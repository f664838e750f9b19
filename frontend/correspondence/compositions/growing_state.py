"""Parts of a loop's state with more or fewer rows each round: room for the most, and a count of those there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from ....base.dims import MOST, Dim, Size, Symbol, bounds, symbols_of
from ....base.records import dataclass
from ....base.size_limits import at_most, larger
from ....graph_ir.ir.graph import Graph
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ....graph_ir.ir.logical_tensor import LogicalTensor
from ....graph_ir.ops.dynamic_sizes import largest_counts
from ...op_builder import OpBuilder
from ...refusals import FIXED
from .indexing import dynamic_size


@dataclass(frozen=True)
class Growing:
    """One part: its number, the axis of the rows, how many there are before a round, and the most.

    `is_exact`: each round adds as many, so that after all rounds there are the most.
    """

    part: int
    axis: int
    before: Dim
    room: Size
    is_exact: bool

    def with_room(self, details: LogicalTensor) -> tuple[Size, ...]:
        """The shape of a part that has room for the most."""
        dims = details.plain_dims
        return (*dims[: self.axis], self.room, *dims[self.axis + 1 :])


@dataclass(frozen=True)
class GrowingState:
    """The parts of a loop's state that grow, in at most `rounds` rounds (None: nothing limits them).

    In the loop they are tensors with room for the most, and a count (s64[]) for each size, behind the whole state.
    Parts that begin with one size and grow alike share it.
    """

    node: OpBuilder
    state: Sequence[Tensor]
    rounds: Size | None
    parts: tuple[Growing, ...] = ()
    names: list[str] = field(default_factory=list)

    @property
    def _firsts(self) -> list[Growing]:
        """The first part of each size."""
        return list({part.before: part for part in reversed(self.parts)}.values())[::-1]

    def packed(self) -> list[Tensor]:
        """Outside: the state as the loop takes it."""
        return self.returned(self.node, self.state)

    def returned(self, node: OpBuilder, state: Sequence[Tensor]) -> list[Tensor]:
        """A state as the loop has it."""
        made = list(state)
        for one in self.parts:
            x = state[one.part]
            made[one.part] = node.helper("room_for", x, shape=one.with_room(x.details))
        sizes = (state[one.part].details.plain_dims[one.axis] for one in self._firsts)
        return [*made, *(dynamic_size(node, one) for one in sizes)]

    def unpacked(self, node: OpBuilder, own: Sequence[Tensor]) -> list[Tensor]:
        """Unpack the loop's variables into the state, in its body or its condition."""
        made = list(own[: len(self.state)])
        for one, number in zip(self._firsts, own[len(self.state) :], strict=True):
            given = node.reshaped(number, (1,))
            node.helper("count", given, size=(one.before,), most=(one.room,))
        for one in self.parts:
            x = made[one.part]
            made[one.part] = node.helper("counted_rows", x, size=(one.before,), axis=one.axis)
        return made

    def received(self, results: Sequence[Tensor], runs_all: bool) -> list[Tensor]:
        """Outside: the state that the loop leaves; `runs_all`: it ends after all rounds only."""
        made = list(results[: len(self.state)])
        numbers = dict(zip((x.before for x in self._firsts), results[len(made) :], strict=True))
        found: dict[Dim, Size] = {}
        for one in self.parts:
            if runs_all and one.is_exact:
                continue
            if one.before not in found:
                found[one.before] = self.node.counted(numbers[one.before], one.room)
            number = (found[one.before],)
            made[one.part] = self.node.helper(
                "counted_rows", made[one.part], size=number, axis=one.axis
            )
        return made

    def following(
        self, graph: Graph, before: Sequence[Tensor], after: Sequence[Tensor]
    ) -> GrowingState:
        """Return the parts of the state that grow in a round of `graph`, built for this purpose, and by how much.

        Raise UnsupportedError if a part changes otherwise, or nothing limits it.
        """
        known = {one.part: one for one in self.parts}
        own = {str(one.before): one.room for one in self.parts}
        inside = largest_counts(graph, own)
        sizes: dict[tuple[Size, ...], Dim] = {}
        parts = []
        for number, (x, y) in enumerate(zip(before, after, strict=True)):
            if number not in known and x.details == y.details:
                continue
            axis = self._axis(known.get(number), x.details, y.details)
            old, new = (one.details.plain_dims[axis] for one in (x, y))
            others = {name: room for name, room in own.items() if name != str(old)}
            most = at_most(at_most(new, inside), others)
            start = self.state[number].details.plain_dims[axis]
            room = self._room(number in known, start, old, most, (x.details, y.details))
            key = (start, old, most - old)
            grows = most == new and bounds(most - old)[0] >= 0
            if key not in sizes:
                least = bounds(start)[0] if grows else 0
                sizes[key] = self._size(len(sizes), least, room)
            is_exact = grows and room == start + (most - old) * (self.rounds or 0)
            parts.append(Growing(number, axis, sizes[key], room, is_exact))
        return replace(self, parts=tuple(parts))

    def _axis(self, known: Growing | None, before: LogicalTensor, after: LogicalTensor) -> int:
        """The only axis on which two types differ."""
        if (before.dtype, before.rank) != (after.dtype, after.rank):
            raise changing_state(self.node, before, after)
        pairs = zip(before.plain_dims, after.plain_dims, strict=True)
        axes = {axis for axis, (old, new) in enumerate(pairs) if old != new}
        axes |= {known.axis} if known else set()
        if len(axes) > 1:
            raise changing_state(self.node, before, after)
        return axes.pop()

    def _room(
        self,
        is_known: bool,
        start: Size,
        before: Size,
        after: Size,
        types: tuple[LogicalTensor, LogicalTensor],
    ) -> Size:
        """The most rows of a part that has `start` at first, and at most `after` behind a round if it had `before`."""
        if self.rounds is None:
            what = f"a state that grows (from {types[0]} to {types[1]}) in rounds whose number nothing limits"
            raise self.node.unsupported(what, FIXED)
        more = after - before
        symbol = before if is_known else None
        if symbol is None or not _has(more, symbol):
            return start + larger(more, 0) * larger(self.rounds, 0)
        if not _has(after, symbol):
            return larger(start, after)
        raise changing_state(self.node, *types)

    def _size(self, number: int, least: int, room: Size) -> Dim:
        """A dynamic size for parts that grow alike."""
        while len(self.names) <= number:
            self.names.append(self.node.size_name(f"{self.node.name}_rows"))
        most = max(min(bounds(room)[1], MOST), 1)
        return Dim({(Symbol(self.names[number], min(least, most - 1), most),): 1})


def _has(value: Size, symbol: Size) -> bool:
    return bool(set(symbols_of([value])) & set(symbols_of([symbol])))


def changing_state(node: OpBuilder, before: LogicalTensor, after: LogicalTensor) -> Exception:
    """The error for a loop whose state has no type that stays."""
    return node.unsupported(
        f"a state whose type changes from round to round (from {before} to {after})"
    )
