"""If: the taken branch is inlined where it is known, others become `case`, whose subgraphs take outer values as inputs.

Branches whose results differ in element type or number of axes also take in the nodes that read these, until the
results agree.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import GraphProto, NodeProto, ValueInfoProto
from onnx.helper import make_node

from ...base.dtypes import BOOL, S64
from ...base.errors import UserError
from ...graph_ir.ir.graph import Graph, GraphTensor
from ..correspondence.compositions.control import (
    UnequalBranchesError,
    choice,
    finished,
    inputs_like,
)
from ..op_builder import Value
from .nesting import captured, graphs_of, reads
from .reader import mark_of, set_mark
from .scope import Handler, Listed, NodeContext, Scope
from .sequences import is_listed

_LEVELS = "graphc.levels"  # among the metadata of an If: how many levels of readers its branches have taken in


class Captured:
    """The outer values that a node's graphs read: arrays are passed unchanged, `tensors` as inputs."""

    def __init__(self, node: NodeContext, graphs: Sequence[GraphProto]) -> None:
        self._outer = node.scope
        names = dict.fromkeys(name for graph in graphs for name in captured(graph))
        for name in names:
            given: object = node.scope.values.get(name)
            if isinstance(given, Listed):
                node.scope.as_tensor(node.scope.values[name])
        self._names = [n for n in names if isinstance(node.scope.values.get(n), GraphTensor)]
        self.tensors = [node.scope.tensor(name) for name in self._names]

    def scope(self, graph: Graph, inputs: Sequence[GraphTensor] | None = None) -> Scope:
        """A scope for a subgraph with these inputs for what is captured; None: new inputs of a branch, whose checks
        are collected."""
        inner = self._outer.inside(graph)
        if inputs is None:
            inputs = inputs_like(graph, self.tensors)
            inner.checks = None if self._outer.checks is None else []
        inner.values.update(zip(self._names, inputs, strict=True))
        return inner


def _if(node: NodeContext) -> list[Value]:
    graphs = [node.attr_graph("else_branch"), node.attr_graph("then_branch")]
    gives_lists = any(is_listed(x.type) for graph in graphs for x in graph.output)
    known = node.array(0, "the condition") if gives_lists else node.known(0)
    if known is not None and known.size == 1:
        return node.scope.inline(graphs[bool(known.reshape(()))], {})
    outer, condition = Captured(node, graphs), truth(node, node.tensor(0))
    branches = []
    for number, proto in enumerate(graphs):
        scope = outer.scope(Graph(f"{node.name}.{proto.name}"))
        try:
            branches.append((scope, results_of(scope, proto)))
        except UserError as error:  # exporters' squeeze has a branch for a count of 1
            if not (node.graph.counted or mark_of(node.node, _LEVELS, 0)):
                raise
            other = node.helper("not", condition) if number else condition
            node.require(other, f"a branch must not be taken: {error}")
            return node.scope.inline(graphs[1 - number], {})
    messages = list(dict.fromkeys(m for scope, _ in branches for _, m in scope.checks or ()))
    index = node.converted(condition, S64)
    made = choice(node, index, [_finished(*one, messages) for one in branches], outer.tensors)
    count = len(made) - len(messages)
    for holds, message in zip(made[count:], messages, strict=True):
        node.scope.require(holds, message)
    return [*made[:count]]


def _finished(scope: Scope, results: list[GraphTensor], messages: Sequence[str]) -> Graph:
    """The graph of a branch, which also returns whether the checks with these messages hold, true for those that it
    does not have."""
    holds = {message: tensor for tensor, message in scope.checks or ()}
    inputs = [op.outputs[0] for op in scope.graph.inputs]
    true = [] if holds.keys() >= {*messages} else [scope.graph.make_constant(np.array(True))]
    return finished(scope.graph, inputs, [*results, *(holds.get(m, *true) for m in messages)])


def with_readers(
    nodes: Sequence[NodeProto], error: UnequalBranchesError, outputs: Sequence[str]
) -> list[NodeProto]:
    """Return the nodes of a graph, an If first, with those inside of its branches that read its unequal results.

    Raise the error for results of the graph, and with their positions among its outputs.
    """
    old, levels = nodes[0], mark_of(nodes[0], _LEVELS, 0)
    names = {old.output[i] for i in error.results if old.op_type == "If"}
    error.results = [i for i, name in enumerate(outputs) if name in names]
    if error.results or not names:
        raise error
    depending, before, later = {*old.output}, list[NodeProto](), list[NodeProto]()
    for one in nodes[1:]:
        is_later = not depending.isdisjoint(reads(one))
        depending.update(one.output if is_later else ())
        (later if is_later else before).append(one)
    for _ in range(max(levels, 1)):
        names |= {name for one in later if names & {*reads(one)} for name in one.output}
    taken, rest = list[NodeProto](), list[NodeProto]()
    for one in reversed(later):
        is_taken = not names.isdisjoint(one.output)
        names.update(reads(one) if is_taken else ())  # nodes between the If and those
        (taken if is_taken else rest).insert(0, one)
    read = {*outputs, *(name for one in rest for name in reads(one))}
    new = _widened(old, taken, [n for one in (old, *taken) for n in one.output if n in read])
    set_mark(new, _LEVELS, max(2 * levels, 1))  # doubled, so that a long model is read a few times
    return [*before, new, *rest]


def _widened(node: NodeProto, readers: Sequence[NodeProto], results: Sequence[str]) -> NodeProto:
    """Return an If with these results, whose branches hold nodes that read its own."""
    new = NodeProto()
    new.CopyFrom(node)
    new.output[:] = results
    for graph in graphs_of(new):
        types = {}
        for given, name in zip(graph.output, node.output, strict=False):
            types[name] = given.type
            if name not in ("", given.name):
                graph.node.append(make_node("Identity", [given.name], [name]))
        graph.node.extend(readers)
        del graph.output[:]
        graph.output.extend(ValueInfoProto(name=name, type=types.get(name)) for name in results)
    return new


def results_of(scope: Scope, proto: GraphProto) -> list[GraphTensor]:
    """The results of a graph imported into a scope, as tensors."""
    return [scope.as_tensor(value) for value in scope.import_graph(proto, scope)]


def truth(node: NodeContext, x: GraphTensor) -> GraphTensor:
    """A condition as bool[]."""
    if x.details.elements != 1:
        raise node.rule("a condition must have one element", str(x.details))
    return node.reshaped(node.converted(x, BOOL), ())


HANDLERS: dict[str, Handler] = {"If": _if}
