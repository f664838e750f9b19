"""Imports a dump as a Graph: requests everything that the text omits, then imports node by node."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...base.errors import UnsupportedError
from ...graph_ir.ir.graph import Array, Graph
from ..correspondence.scoped import results_of
from ..op_builder import Value
from ..shape_spec import InputSpecs, check_size
from .completion import complete, data_index, is_source
from .control import HANDLERS as CONTROL
from .document import Dump, DumpGraph, Node, Reference, TensorText
from .liveness import live_nodes
from .op_table import HANDLERS
from .reader import read_ge
from .scope import NodeContext, Scope, Session
from .subgraphs import Call, Imported, Typed, argument_types

_DEEPEST = 32


def load_ge(
    source: str | os.PathLike[str] | bytes | Dump,
    specs: InputSpecs | None = None,
    constants: Mapping[str, Array] | None = None,
) -> Graph:
    """Read a GE readable dump. `specs` gives dtype and shape of every `Data` node of the main graph, by its name.

    `constants` are the values the text elides, by node name (`graph/node` in a subgraph); values in the text may be
    given too, if their dtype or rank matters. UserError names everything missing at once, UnsupportedError all
    unsupported ops.
    """
    dump = source if isinstance(source, Dump) else read_ge(source)
    completed = complete(dump, specs or {}, constants or {}, {*HANDLERS, *CONTROL})
    graph = Graph(dump.main.name or "graph")
    scope = Scope(Session(dump, completed.constants), dump.main, graph)
    for node, details in completed.inputs:
        check_size(f"{dump.label}: input '{node.name}'", details.dtype, details.plain_dims)
        scope.values[Reference(node.name)] = graph.make_input(details, node.name)
    _import_nodes(scope)
    for index, reference in enumerate(dump.main.results):
        name = "output" if len(dump.main.results) == 1 else f"output_{index}"
        graph.make_output(scope.tensor(reference), name)
    return graph


def _import_nodes(scope: Scope) -> None:
    for node in live_nodes(scope.source):
        if Reference(node.name) in scope.values:
            continue
        scope.session.step(node)
        if is_source(node):
            _bind_constant(node, scope)
        else:
            _import_node(node, scope)


def _bind_constant(node: Node, scope: Scope) -> None:
    """The value the caller gave, or the one of the text: one element is [1], more are a vector."""
    reference = Reference(node.name)
    given = scope.session.constants.get((scope.source.name, node.name))
    if given is not None:
        scope.values[reference] = given
        return
    scope.values[reference] = text_value(node)
    scope.guessed.add(reference)


def text_value(node: Node) -> Array:
    """The array of a constant's text: float32 where a number has a point, else int32 (int64 where it must be)."""
    text = node.attrs["value"]
    items: Sequence[int | float | bool]
    items = text.items if isinstance(text, TensorText) else (text,)
    if all(isinstance(item, bool) for item in items) and items:
        return np.array(items, np.bool_)
    if any(isinstance(item, float) for item in items):
        with np.errstate(over="ignore"):
            return np.array(items, np.float64).astype(np.float32)
    wide = any(not -(2**31) <= item < 2**31 for item in items)
    beyond = any(item >= 2**63 for item in items)
    return np.array(items, np.uint64 if beyond else np.int64 if wide else np.int32)


def _import_node(node: Node, scope: Scope) -> None:
    """Bind the node's outputs: to arrays if all its inputs are small known arrays, else to new tensors."""
    known = {reference: scope.values[reference] for _, reference in node.inputs}

    def run(scratch: Graph | None) -> list[Value]:
        inner = replace(scope, values=known, constants={}, graph=scratch or scope.graph)
        return _run(node, scope if scratch is None else inner)

    foldable = None if node.type in CONTROL else known.values()
    label, file = f"{scope.prefix}{node.name}", scope.session.dump.label
    results = results_of(node.type, label, foldable, run, file)
    loose = node.type in ("Identity", "Reshape", "Unsqueeze", "Squeeze", "ExpandDims") and all(
        reference in scope.guessed for key, reference in node.inputs if key in ("x", "")
    )
    for index, value in enumerate(results):
        reference = Reference(node.name, index)
        scope.values[reference] = value
        if loose and node.inputs:
            scope.guessed.add(reference)


def _run(node: Node, scope: Scope) -> list[Value]:
    context = NodeContext(node, scope)
    if node.type in CONTROL:
        results = CONTROL[node.type](context, _caller(scope))
    else:
        made = HANDLERS[node.type](context)
        results = made if isinstance(made, list) else [made]
    if node.outputs > len(results):
        _check_unused(context, len(results))
    return results


def _check_unused(context: NodeContext, count: int) -> None:
    """Raise UnsupportedError if an output that the importer does not provide is used."""
    graph, name = context.scope.source, context.node.name
    read = [r for node in live_nodes(graph) for _, r in node.inputs] + list(graph.results)
    if any(reference.node == name and reference.index >= count for reference in read):
        raise context.unsupported(f"its output {count}")


def _caller(scope: Scope) -> Call:
    """Lets a control-flow node import a graph it names, with values for its Data nodes."""

    def call(
        source: DumpGraph, name: str, arguments: Mapping[int, Typed], graph: Graph | None = None
    ) -> list[Typed]:
        session = scope.session
        if scope.depth >= _DEEPEST:
            raise UnsupportedError(
                f"{session.dump.label}: graph '{source.name}' is nested more than {_DEEPEST} deep, "
                "which is not supported",
                "call it from fewer levels",
            )
        steps = session.steps
        session.step(Node(name, source.name))
        inner = Scope(session, source, graph or scope.graph, f"{name}/", scope.depth + 1)
        if graph is None:
            return _called(inner, arguments)
        key = (source.name, argument_types(arguments))
        found = session.imported.get(key)
        if found is not None:
            session.step(Node(name, source.name), found.steps - 1)
            return found.repeated(inner, arguments)
        before = len(graph.ops)
        results = _called(inner, arguments)
        made = Imported(f"{name}/", arguments, graph.ops[before:], results, session.steps - steps)
        session.imported[key] = made
        return results

    return call


def _called(inner: Scope, arguments: Mapping[int, Typed]) -> list[Typed]:
    """The results of a graph whose Data nodes are the arguments."""
    source = inner.source
    live = live_nodes(source)
    for node in source.nodes:
        if node.type != "Data":
            continue
        index, reference = data_index(node), Reference(node.name)
        if index in arguments:
            inner.values[reference], loose = arguments[index]
            if loose:
                inner.guessed.add(reference)
        elif any(node is other for other in live):
            raise UnsupportedError(
                f"{inner.session.dump.label} line {node.line}: Data '{node.name}' of graph '{source.name}' has "
                f"index {index}, for which the caller has no input",
                "give the caller one",
            )
    _import_nodes(inner)
    return [(inner.values[r], r in inner.guessed) for r in source.results]
