"""Subgraphs for the nodes that hold graphs, and the `while` that Loop and Scan become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto

from ...base.dtypes import BOOL, S64
from ...graph_ir.ir.graph import Array, Graph, GraphTensor
from ...graph_ir.ir.logical_tensor import LogicalTensor
from .nesting import captured
from .scope import NodeContext, Scope


class Captured:
    """The outer values that a node's graphs read: arrays are passed unchanged, tensors as inputs."""

    def __init__(self, node: NodeContext, graphs: Sequence[GraphProto]) -> None:
        self._outer = node.scope
        names = dict.fromkeys(name for graph in graphs for name in captured(graph))
        self._names = [n for n in names if isinstance(node.scope.values.get(n), GraphTensor)]
        self.tensors = [node.scope.tensor(name) for name in self._names]

    def scope(self, name: str) -> tuple[Scope, list[GraphTensor]]:
        """A scope for a new subgraph, and its inputs for what is captured."""
        inner = self._outer.inside(Graph(name))
        inputs = [
            inner.graph.make_input(tensor.details, own)
            for own, tensor in zip(self._names, self.tensors, strict=True)
        ]
        inner.values.update(zip(self._names, inputs, strict=True))
        return inner, inputs


def finished(graph: Graph, inputs: Sequence[GraphTensor], results: Sequence[GraphTensor]) -> Graph:
    """The subgraph with its inputs in this order, and these results."""
    for number, tensor in enumerate(results):
        graph.make_output(tensor, f"result.{number}")
    first = [x.producer_owner for x in inputs]
    graph.ops = [*first, *(op for op in graph.ops if op.op_name != "input")]
    graph.sort()
    return graph


@dataclass(frozen=True)
class Round:
    """The results of an iteration: whether another follows (None: only the count decides), the state, rows to
    collect."""

    going: GraphTensor | None
    state: list[GraphTensor]
    rows: list[GraphTensor]


Step = Callable[[Scope, GraphTensor, list[GraphTensor], list[GraphTensor]], Round]
"""Imports one iteration into a scope, given its number (s64[]), the state and the loop-invariant values."""


@dataclass(frozen=True)
class WhileLoop:
    """A loop of a node: its initial `state`, `fixed` tensors, and its termination.

    At most `limit` iterations (None: no limit) and only while `going` holds (None: always).
    """

    node: NodeContext
    body: GraphProto
    state: list[GraphTensor]
    fixed: list[GraphTensor]
    limit: GraphTensor | Array | None
    going: GraphTensor | None

    def make(self, step: Step, backwards: Sequence[bool]) -> list[GraphTensor]:
        """Append the `while`; returns the final state, then the collected rows [iterations, ...].

        `backwards`: for each collected result, whether the last iteration gives the first row. UnsupportedError if an
        iteration changes the type of the state, or an unknown number of rows is collected.
        """
        node, outer = self.node, Captured(self.node, [self.body])
        fixed = [*self.fixed, *([self.limit] if isinstance(self.limit, GraphTensor) else [])]
        heads = [node.constant(0, S64), self.going or node.constant(True, BOOL), *self.state]
        inner, captured_inputs = outer.scope(f"{node.name}.body")
        own, same = _inputs(inner.graph, heads), _inputs(inner.graph, fixed)
        made = step(inner, own[0], own[2:], same[: len(self.fixed)])
        buffers = [self._buffer(row.details) for row in made.rows]
        rows = _inputs(inner.graph, buffers)
        one = _scalar(inner.graph, 1)
        results = [inner.graph.make("add", (own[0], one)).outputs[0], made.going or own[1]]
        results += made.state
        for row, collected, flag in zip(made.rows, rows, backwards, strict=True):
            number = self._from_the_end(inner.graph, own[0]) if flag else own[0]
            results.append(_with_row(inner.graph, collected, row, number))
        self._check_state([*heads, *buffers], results)
        body = finished(inner.graph, [*own, *rows, *same, *captured_inputs], results)
        condition = self._condition(outer, [*heads, *buffers], fixed)
        inputs = [*heads, *buffers, *fixed, *outer.tensors]
        attrs = {"condition": condition, "body": body}
        return list(node.scope.graph.make("while", inputs, attrs, node.name).outputs[2:])

    def _buffer(self, row: LogicalTensor) -> GraphTensor:
        """Zeros for all rows."""
        if self.limit is None or isinstance(self.limit, GraphTensor) or self.going is not None:
            raise self.node.unsupported(
                "a result with a row of each round, where their number depends on the model's inputs and so the "
                "result's shape does,"
            )
        zero = self.node.constant(0, row.dtype)
        dims = (max(int(self.limit), 0), *row.plain_dims)
        return self.node.helper("broadcast", zero, shape=dims)

    def _from_the_end(self, graph: Graph, trip: GraphTensor) -> GraphTensor:
        assert self.limit is not None and not isinstance(self.limit, GraphTensor)
        last = _scalar(graph, int(self.limit) - 1)
        return graph.make("sub", (last, trip)).outputs[0]

    def _check_state(self, before: Sequence[GraphTensor], after: Sequence[GraphTensor]) -> None:
        for x, y in zip(before, after, strict=True):
            if x.details != y.details:
                raise self.node.unsupported(
                    f"a state whose type changes from round to round (from {x.details} to {y.details})"
                )

    def _condition(
        self, outer: Captured, state: Sequence[GraphTensor], fixed: Sequence[GraphTensor]
    ) -> Graph:
        scope, captured_inputs = outer.scope(f"{self.node.name}.condition")
        graph = scope.graph
        own, same = _inputs(graph, state), _inputs(graph, fixed)
        holds = own[1]
        if self.limit is not None:
            known = not isinstance(self.limit, GraphTensor)
            most = _scalar(graph, self.limit) if known else same[-1]  # type: ignore[arg-type]
            below = graph.make("lt", (own[0], most)).outputs[0]
            holds = graph.make("and", (below, holds)).outputs[0]
        return finished(graph, [*own, *same, *captured_inputs], [holds])


def _inputs(graph: Graph, like: Sequence[GraphTensor]) -> list[GraphTensor]:
    return [graph.make_input(x.details, "state") for x in like]


def _scalar(graph: Graph, value: int | Array) -> GraphTensor:
    return graph.make_constant(np.asarray(value, np.int64).reshape(()))


def _with_row(
    graph: Graph, rows: GraphTensor, row: GraphTensor, number: GraphTensor
) -> GraphTensor:
    """`rows` with the one of this number replaced."""
    dims = rows.details.plain_dims
    part = graph.make("reshape", (row,), {"shape": (1, *dims[1:])}).outputs[0]
    return graph.make("update_slice", (rows, part, number), {"axes": (0,)}).outputs[0]
