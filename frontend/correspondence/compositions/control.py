"""Control flow: branches become `case`, loops `while`, whose subgraphs take what they read from outside as inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from ....base.dims import Dim, Size, symbols_of
from ....base.dtypes import BOOL, S64
from ....base.errors import UnsupportedError
from ....base.records import dataclass
from ....graph_ir.ir.graph import Graph
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ....graph_ir.ir.logical_tensor import LogicalTensor
from ....graph_ir.ops.dynamic_sizes import largest_counts
from ...op_builder import OpBuilder, Value
from ..scoped import NotKnownError
from .counted_results import CommonType, common_type, counted_inside
from .growing_state import GrowingState
from .indexing import dynamic_size


class UnequalBranchesError(UnsupportedError):
    """Element types or numbers of axes of the `results` at these positions depend on the branch."""

    results: Sequence[int] = ()


def finished(graph: Graph, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Graph:
    """The subgraph with its inputs in this order, and these results."""
    for number, tensor in enumerate(results):
        graph.make_output(tensor, f"result.{number}")
    first = [x.producer_owner for x in inputs]
    graph.ops = [*first, *(op for op in graph.ops if not op.is_input)]
    graph.sort()
    return graph


def inputs_like(graph: Graph, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Inputs of a subgraph for tensors outside of it."""
    return [graph.make_input(x.details, x.name) for x in tensors]


def choice(
    node: OpBuilder, index: Tensor, branches: Sequence[Graph], outside: Sequence[Tensor]
) -> list[Tensor]:
    """The results of the branch of this number (s64[]); all take the tensors `outside` as inputs.

    Sizes that depend on the branch, or on data inside of it, are counted. Raise UnequalBranchesError if element types
    or numbers of axes depend on the branch.
    """
    types = [[op.inputs[0].details for op in branch.outputs] for branch in branches]
    inside = counted_inside(branches)
    common = [common_type(branches, several, inside) for several in zip(*types, strict=False)]
    if None in common or len({len(several) for several in types}) > 1:
        texts = [", ".join(map(str, several)) for several in types]
        other = next(text for text in texts if text != texts[0])
        what = f"a choice between results of different types ({other} and {texts[0]})"
        error = UnequalBranchesError(str(node.unsupported(what)))
        error.results = [i for i, one in enumerate(common) if one is None]
        raise error
    found = [one for one in common if one is not None]
    if any(one.counted for one in found):
        for branch in branches:
            _return_as(node, branch, found)
    attrs = {"branches": tuple(branches)}
    made = iter(node.graph.make("case", [index, *outside], attrs, node.name).outputs)
    return [one.received(node, list(islice(made, 1 + len(one.counted)))) for one in found]


def _return_as(node: OpBuilder, branch: Graph, types: Sequence[CommonType]) -> None:
    """Have a branch return its results in the types that all branches do."""
    results = [op.inputs[0] for op in branch.outputs]
    branch.remove(branch.outputs)
    build = OpBuilder(branch, node.type, node.name)
    for wanted, result in zip(types, results, strict=True):
        for tensor in wanted.returned(build, result):
            branch.make_output(tensor, f"result.{len(branch.outputs)}")
    branch.sort()


def unroll(graph: Graph, most: int, advance: Callable[[int], bool | None]) -> bool:
    """Run rounds 0, 1, ... while `advance` says there is one more, at most `most`; whether the loop came to its end.

    Where it did not, or `advance` cannot say (None), the graph is left unchanged.
    """
    count = len(graph.ops)
    for number in range(most + 1):
        following = advance(number)
        if following is None:
            break
        if not following:
            return True
    graph.remove(graph.ops[count:])
    return False


Condition = Callable[[Graph, list[Tensor], list[Tensor]], Tensor]
"""Builds a bool[] into a graph, given the state and what never changes: whether there is another iteration."""

Body = Callable[[Graph, list[Tensor], list[Tensor], list[Tensor]], list[Tensor]]
"""Builds an iteration into a graph: the next state, given the state outside, inside, and what never changes.

It may extend the state outside and inside alike."""

_MAX_TRIES = 8


@dataclass(frozen=True)
class Rounds:
    """Limits of a loop's iterations: at most `most` (None: no limit); `all_run`, called when the body is built,
    says whether it ends after these only."""

    most: Size | None = None
    all_run: Callable[[], bool] = lambda: False


def while_loop(
    node: OpBuilder,
    state: Sequence[Tensor],
    fixed: Sequence[Tensor],
    condition: Condition,
    body: Body,
    rounds: Rounds = Rounds(),  # noqa: B008 - it is frozen
) -> list[Tensor]:
    """The state after the last iteration. The body is built again where that shows that a part of the state grows.

    Raise UnsupportedError if an iteration changes the type of the state in another way, or nothing limits how much it
    grows.
    """
    growing = GrowingState(node, state, rounds.most)
    for _ in range(_MAX_TRIES):
        packed, outside = growing.packed(), list(state)
        graph = Graph(f"{node.name}/body")
        build = OpBuilder(graph, node.type, node.name)
        taken, same = inputs_like(graph, packed), inputs_like(graph, fixed)
        own = growing.unpacked(build, taken)
        results = body(graph, outside, own, same)
        following = growing.following(graph, own[: len(state)], results[: len(state)])
        if following.parts == growing.parts:
            break
        growing = following
    else:
        raise node.unsupported("a state that grows by another amount each time it is looked at")
    added = own[len(state) :]
    results = [*growing.returned(build, results[: len(state)]), *results[len(state) :]]
    parts = {"body": finished(graph, [*taken, *added, *same], results)}
    heads = [*packed, *outside[len(state) :]]
    graph = Graph(f"{node.name}/condition")
    taken, same = inputs_like(graph, heads), inputs_like(graph, fixed)
    seen = growing.unpacked(OpBuilder(graph, node.type, node.name), taken[: len(packed)])
    holds = condition(graph, [*seen, *taken[len(packed) :]], same)
    parts["condition"] = finished(graph, [*taken, *same], [holds])
    made = list(node.graph.make("while", [*heads, *fixed], parts, node.name).outputs)
    return [*growing.received(made[: len(packed)], rounds.all_run()), *made[len(packed) :]]


@dataclass(frozen=True)
class Round:
    """Results of an iteration: the state, rows to collect, and whether another follows (None: the count decides)."""

    state: list[Tensor]
    rows: Sequence[Tensor] = ()
    going: Tensor | None = None


Step = Callable[[OpBuilder, Tensor, list[Tensor], list[Tensor]], Round]
"""Builds one iteration, given its number (s64[]), the state and what never changes."""


@dataclass(frozen=True)
class CountedLoop:
    """A loop of at most `limit` iterations (None: no limit), only while `going` holds (None: always).

    `backwards`: for each collected result, whether the last iteration gives the first row. `room`: for how many rows
    there is room where nothing limits their number before the run (`OpBuilder.room`).
    """

    node: OpBuilder
    limit: Tensor | Size | None
    going: Tensor | None = None
    backwards: Sequence[bool] = ()
    room: Size | None = None

    def make(self, state: Sequence[Tensor], fixed: Sequence[Tensor], step: Step) -> list[Tensor]:
        """The final state, then the collected rows [iterations, ...]; a run may count them, and rows of the state.

        Raise UnsupportedError if rows of a loop without limit are collected, or otherwise as `while_loop`.
        """
        node = self.node
        if self.limit == 0 and not self.backwards:
            return [*state]
        heads = [node.constant(0, S64), self.going or node.constant(True, BOOL), *state]
        limits = [self.limit] if isinstance(self.limit, Tensor) else []
        ends = [] if self.going is None else [self.going]
        most = self.limit if isinstance(self.limit, (int, Dim)) else None

        def condition(graph: Graph, own: list[Tensor], same: list[Tensor]) -> Tensor:
            if self.limit is None:
                return own[1]
            build = OpBuilder(graph, node.type, node.name)
            last = same[-1] if isinstance(self.limit, Tensor) else dynamic_size(build, self.limit)
            return build.helper("and", build.helper("lt", own[0], last), own[1])

        rounds, body = Rounds(most, lambda: not ends), self._body(step, len(fixed), ends)
        trips, _, *results = while_loop(node, heads, [*fixed, *limits], condition, body, rounds)
        known = None if ends else most
        if len(results) == len(state) or (known is not None and self.room is None):
            return results
        size = node.counted(trips, most, room=self.room) if known is None else known
        rows = (node.helper("counted_rows", x, size=(size,)) for x in results[len(state) :])
        return [*results[: len(state)], *rows]

    def _body(self, step: Step, fixed: int, ends: list[Tensor]) -> Body:
        """One iteration; what may end the loop before its last is added to `ends`."""

        def body(
            graph: Graph, outside: list[Tensor], own: list[Tensor], same: list[Tensor]
        ) -> list[Tensor]:
            build = OpBuilder(graph, self.node.type, self.node.name)
            made = step(build, own[0], own[2:], same[:fixed])
            ends.extend([] if made.going is None else [made.going])
            going = own[1] if made.going is None else made.going
            results = [build.helper("add", own[0], build.constant(1, S64)), going, *made.state]
            for row, backwards in zip(made.rows, self.backwards, strict=True):
                outside.append(self._buffer(graph, row.details))
                own += inputs_like(graph, outside[-1:])
                number = self._from_the_end(build, own[0]) if backwards else own[0]
                part = build.helper("reshape", row, shape=(1, *row.details.plain_dims))
                results.append(build.helper("update_slice", own[-1], part, number, axes=(0,)))
            return results

        return body

    def _buffer(self, graph: Graph, row: LogicalTensor) -> Tensor:
        """Zeros for all rows."""
        rows = self.limit if self.room is None else self.room
        if not isinstance(rows, (int, Dim)):
            what = "a result with a row of each round, where nothing limits their number at compile time,"
            raise NotKnownError(str(self.node.unsupported(what)))
        if {symbol.name for symbol in symbols_of(row.plain_dims)} & set(largest_counts(graph)):
            raise self.node.unsupported(f"a row of each round whose size a run counts ({row})")
        zero = self.node.constant(0, row.dtype)
        dims = (max(rows, 0), *row.plain_dims)
        return self.node.helper("broadcast", zero, shape=dims)

    def _from_the_end(self, build: OpBuilder, number: Tensor) -> Tensor:
        assert isinstance(self.limit, (int, Dim))
        return build.helper("sub", dynamic_size(build, self.limit - 1), number)


def truth(node: OpBuilder, x: Value) -> Value:
    """A condition as bool[]; one that has not one element is true if it has any."""
    size = x.details.elements if isinstance(x, Tensor) else x.size
    if size != 1:
        return np.array(bool(size))
    return (
        node.reshaped(node.converted(x, BOOL), ())
        if isinstance(x, Tensor)
        else x.astype(bool).reshape(())
    )
