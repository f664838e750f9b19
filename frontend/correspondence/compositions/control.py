"""Control flow: branches become `case`, loops `while`, whose subgraphs take what they read from outside as inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ....base.dims import Dim, Size
from ....base.dtypes import BOOL, S64
from ....base.records import dataclass
from ....graph_ir.ir.graph import Graph
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ....graph_ir.ir.logical_tensor import LogicalTensor
from ...op_builder import OpBuilder, Value
from ..scoped import NotKnownError
from .indexing import open_size


def finished(graph: Graph, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Graph:
    """The subgraph with its inputs in this order, and these results."""
    for number, tensor in enumerate(results):
        graph.make_output(tensor, f"result.{number}")
    first = [x.producer_owner for x in inputs]
    graph.ops = [*first, *(op for op in graph.ops if op.op_name != "input")]
    graph.sort()
    return graph


def inputs_like(graph: Graph, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Inputs of a subgraph for tensors outside of it."""
    return [graph.make_input(x.details, x.name) for x in tensors]


def choice(
    node: OpBuilder, index: Tensor, branches: Sequence[Graph], outside: Sequence[Tensor]
) -> list[Tensor]:
    """The results of the branch of this number (s64[]); all take the tensors `outside` as inputs.

    UnsupportedError if the types of the results depend on the branch.
    """
    types = [", ".join(str(op.inputs[0].details) for op in branch.outputs) for branch in branches]
    other = next((text for text in types if text != types[0]), None)
    if other is not None:
        raise node.unsupported(
            f"a choice between results of different types ({other} and {types[0]})"
        )
    attrs = {"branches": tuple(branches)}
    return list(node.graph.make("case", [index, *outside], attrs, node.name).outputs)


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


Part = Callable[[Graph, list[Tensor], list[Tensor]], list[Tensor]]
"""Builds a condition (one bool[]) or an iteration (the next state) into a graph, given the state and what never
changes."""


def while_loop(
    node: OpBuilder, state: list[Tensor], fixed: Sequence[Tensor], condition: Part, body: Part
) -> list[Tensor]:
    """The state after the last iteration. `body` may extend `state`, and the inputs it is given for it, alike.

    UnsupportedError if an iteration changes the type of the state.
    """
    graph = Graph(f"{node.name}/body")
    own, same = inputs_like(graph, state), inputs_like(graph, fixed)
    results = body(graph, own, same)
    for x, y in zip(state, results, strict=True):
        if x.details != y.details:
            raise changing_state(node, x.details, y.details)
    parts = {"body": finished(graph, [*own, *same], results)}
    graph = Graph(f"{node.name}/condition")
    own, same = inputs_like(graph, state), inputs_like(graph, fixed)
    parts["condition"] = finished(graph, [*own, *same], condition(graph, own, same))
    return list(node.graph.make("while", [*state, *fixed], parts, node.name).outputs)


def changing_state(node: OpBuilder, before: LogicalTensor, after: LogicalTensor) -> Exception:
    """The error for a loop whose state has no fixed type."""
    return node.unsupported(
        f"a state whose type changes from round to round (from {before} to {after})"
    )


@dataclass(frozen=True)
class Round:
    """What an iteration gives: the state, rows to collect, whether another follows (None: the count decides)."""

    state: list[Tensor]
    rows: Sequence[Tensor] = ()
    going: Tensor | None = None


Step = Callable[[OpBuilder, Tensor, list[Tensor], list[Tensor]], Round]
"""Builds one iteration, given its number (s64[]), the state and what never changes."""


@dataclass(frozen=True)
class CountedLoop:
    """A loop of at most `limit` iterations (None: no limit), only while `going` holds (None: always).

    `backwards`: for each collected result, whether the last iteration gives the first row.
    """

    node: OpBuilder
    limit: Tensor | Size | None
    going: Tensor | None = None
    backwards: Sequence[bool] = ()

    def make(self, state: Sequence[Tensor], fixed: Sequence[Tensor], step: Step) -> list[Tensor]:
        """The final state, then the collected rows [iterations, ...], whose number a run may count.

        UnsupportedError if an iteration changes the type of the state, or rows of a loop without limit are collected.
        """
        node = self.node
        heads = [node.constant(0, S64), self.going or node.constant(True, BOOL), *state]
        limits = [self.limit] if isinstance(self.limit, Tensor) else []

        def body(graph: Graph, own: list[Tensor], same: list[Tensor]) -> list[Tensor]:
            build = OpBuilder(graph, node.type, node.name)
            made = step(build, own[0], own[2:], same[: len(fixed)])
            going = own[1] if made.going is None else made.going
            results = [build.helper("add", own[0], build.constant(1, S64)), going, *made.state]
            for row, backwards in zip(made.rows, self.backwards, strict=True):
                heads.append(self._buffer(row.details))
                own += inputs_like(graph, heads[-1:])
                number = self._from_the_end(build, own[0]) if backwards else own[0]
                part = build.helper("reshape", row, shape=(1, *row.details.plain_dims))
                results.append(build.helper("update_slice", own[-1], part, number, axes=(0,)))
            return results

        def condition(graph: Graph, own: list[Tensor], same: list[Tensor]) -> list[Tensor]:
            if self.limit is None:
                return [own[1]]
            build = OpBuilder(graph, node.type, node.name)
            most = same[-1] if isinstance(self.limit, Tensor) else open_size(build, self.limit)
            return [build.helper("and", build.helper("lt", own[0], most), own[1])]

        trips, _, *results = while_loop(node, heads, [*fixed, *limits], condition, body)
        if (
            self.going is None
            or len(results) == len(state)
            or not isinstance(self.limit, (int, Dim))
        ):
            return results
        size = node.counted(trips, self.limit)
        rows = (node.helper("counted_rows", x, size=(size,)) for x in results[len(state) :])
        return [*results[: len(state)], *rows]

    def _buffer(self, row: LogicalTensor) -> Tensor:
        """Zeros for all rows."""
        if not isinstance(self.limit, (int, Dim)):
            what = "a result with a row of each round, where nothing limits their number when compiling,"
            raise NotKnownError(str(self.node.unsupported(what)))
        zero = self.node.constant(0, row.dtype)
        dims = (max(self.limit, 0), *row.plain_dims)
        return self.node.helper("broadcast", zero, shape=dims)

    def _from_the_end(self, build: OpBuilder, number: Tensor) -> Tensor:
        assert isinstance(self.limit, (int, Dim))
        return build.helper("sub", open_size(build, self.limit - 1), number)


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
