"""Graphs with control flow: subgraphs from Python functions, loops that count, and random ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.base.dtypes import BOOL, F32, F64, S8, S32, S64, DType
from graphc.graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from graphc.graph_ir.ir.logical_tensor import LogicalTensor

Body = Callable[..., Sequence[GraphTensor]]
"""Appends ops to the graph it is given first, which has the inputs it is given after; what the graph returns."""


def made(graph: Graph, op_name: str, *inputs: GraphTensor, **attrs: Any) -> GraphTensor:
    """The only output of a new op."""
    return graph.make(op_name, inputs, attrs).outputs[0]


def constant(graph: Graph, value: Any, dtype: DType = S64) -> GraphTensor:
    """A new constant."""
    return graph.make_constant(np.asarray(value, dtype.numpy))


def subgraph(name: str, details: Sequence[LogicalTensor], body: Body) -> Graph:
    """A graph with these inputs, called v0, v1, ..."""
    graph = Graph(name)
    inputs = [graph.make_input(d, f"v{i}") for i, d in enumerate(details)]
    for tensor in body(graph, *inputs):
        graph.make_output(tensor)
    return graph


def make_while(graph: Graph, inputs: Sequence[GraphTensor], condition: Body, body: Body) -> Op:
    """A loop called `loop`."""
    details = [x.details for x in inputs]
    attrs = {
        "condition": subgraph("condition", details, condition),
        "body": subgraph("body", details, body),
    }
    return graph.make("while", inputs, attrs, "loop")


def make_case(
    graph: Graph, index: GraphTensor, inputs: Sequence[GraphTensor], *branches: Body
) -> Op:
    """A choice called `choice`."""
    details = [x.details for x in inputs]
    graphs = tuple(subgraph(f"branch{i}", details, body) for i, body in enumerate(branches))
    return graph.make("case", [index, *inputs], {"branches": graphs}, "choice")


def counted(
    state: Sequence[LogicalTensor],
    step: Body,
    fixed: Sequence[LogicalTensor] = (),
    count: int | None = None,
) -> Graph:
    """A model that runs `step` as often as its first input says (or `count` times), then returns the state.

    `step` is given the state and what stays fixed, without the counter.
    """
    graph = Graph("counted")
    most = (
        constant(graph, count)
        if count is not None
        else graph.make_input(LogicalTensor(S64, ()), "n")
    )
    values = [graph.make_input(d, f"x{i}") for i, d in enumerate((*state, *fixed))]
    inputs = [constant(graph, 0), *values[: len(state)], most, *values[len(state) :]]

    def goes_on(g: Graph, i: GraphTensor, *rest: GraphTensor) -> list[GraphTensor]:
        return [made(g, "lt", i, rest[len(state)])]

    def body(g: Graph, i: GraphTensor, *rest: GraphTensor) -> list[GraphTensor]:
        others = [*rest[: len(state)], *rest[len(state) + 1 :]]
        return [made(g, "add", i, constant(g, 1)), *step(g, *others)]

    for tensor in make_while(graph, inputs, goes_on, body).outputs[1:]:
        graph.make_output(tensor)
    return graph


DTYPES = (F32, S32, S64, F64, S8, BOOL)
SHAPES = ((), (3,), (2, 17), (1, 5), (4, 4))


class RandomControl:
    """Random graphs: elementwise ops, permutations, choices and loops, inside each other up to `depth`."""

    def __init__(self, seed: int, depth: int = 2) -> None:
        self.random = random.Random(seed)
        self.depth = depth

    def graph(self) -> Graph:
        """A model whose first input, s64[] and small, decides what runs."""
        details = [
            LogicalTensor(S64, ()),
            *(self._details() for _ in range(self.random.randint(2, 4))),
        ]
        return subgraph("random", details, lambda g, *xs: self._block(g, list(xs), self.depth))

    def _details(self) -> LogicalTensor:
        return LogicalTensor(self.random.choice(DTYPES), self.random.choice(SHAPES))

    def _block(self, graph: Graph, values: list[GraphTensor], depth: int) -> list[GraphTensor]:
        """New values of the same types: some changed, some exchanged, some as they are."""
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.choice(
                ("change", "exchange", "case", "while") if depth else ("change", "exchange")
            )
            values = getattr(self, f"_{kind}")(graph, values, depth)
        return values

    def _change(self, graph: Graph, values: list[GraphTensor], depth: int) -> list[GraphTensor]:
        at = self.random.randrange(1, len(values))
        x = values[at]
        if x.details.dtype == BOOL:
            new = made(graph, "not", x)
        else:
            other = self.random.choice([y for y in values if y.details == x.details])
            new = made(graph, self.random.choice(("add", "max", "sub")), x, other)
        return [*values[:at], new, *values[at + 1 :]]

    def _exchange(self, graph: Graph, values: list[GraphTensor], depth: int) -> list[GraphTensor]:
        one = self.random.randrange(1, len(values))
        same = [i for i in range(1, len(values)) if values[i].details == values[one].details]
        other = self.random.choice(same)
        values = list(values)
        values[one], values[other] = values[other], values[one]
        return values

    def _case(self, graph: Graph, values: list[GraphTensor], depth: int) -> list[GraphTensor]:
        index = made(graph, "sub", values[0], constant(graph, self.random.randint(-1, 3)))

        def branch(g: Graph, *xs: GraphTensor) -> list[GraphTensor]:
            return self._block(g, list(xs), depth - 1)

        branches = [branch] * self.random.randint(1, 3)
        return list(make_case(graph, index, values, *branches).outputs)

    def _while(self, graph: Graph, values: list[GraphTensor], depth: int) -> list[GraphTensor]:
        start, step = constant(graph, self.random.randint(0, 2)), self.random.randint(1, 2)

        def goes_on(
            g: Graph, i: GraphTensor, n: GraphTensor, *xs: GraphTensor
        ) -> list[GraphTensor]:
            return [made(g, "lt", i, n)]

        def body(g: Graph, i: GraphTensor, *xs: GraphTensor) -> list[GraphTensor]:
            return [made(g, "add", i, constant(g, step)), *self._block(g, list(xs), depth - 1)]

        return list(make_while(graph, [start, *values], goes_on, body).outputs[1:])


def small_inputs(graph: Graph, seed: int, first: int | None = None) -> list[Array]:
    """Small integers of every dtype; `first` is the value of the first input."""
    rng = np.random.default_rng(seed)
    arrays = []
    for op in graph.inputs:
        d = op.outputs[0].details
        low, high = (0, 2) if d.dtype == BOOL else (-3, 4)
        arrays.append(np.asarray(rng.integers(low, high, d.plain_dims).astype(d.dtype.numpy)))
    if first is not None:
        arrays[0] = np.asarray(first, arrays[0].dtype)
    return arrays


def endless() -> Graph:
    """A loop that ends after its counter has wrapped."""
    graph = Graph("endless")
    x = graph.make_input(LogicalTensor(S64, ()), "x")
    loop = make_while(
        graph,
        [x],
        lambda g, v: [made(g, "ne", v, constant(g, np.iinfo(np.int64).min))],
        lambda g, v: [made(g, "add", v, constant(g, np.int64(1)))],
    )
    graph.make_output(loop.outputs[0], "y")
    return graph
