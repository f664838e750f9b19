"""Imports an ONNX model: checks the file, fixes the inputs, then imports node by node."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from ...base.dims import symbols_of
from ...base.dtypes import from_numpy
from ...base.errors import UnsupportedError, UserError
from ...base.symbols import Limits
from ...graph_ir.ir.graph import Graph, GraphTensor
from ...graph_ir.ir.note import MODEL_VALUES
from ..correspondence.compositions.control import UnequalBranchesError
from ..correspondence.scoped import NotKnownError, results_of
from ..op_builder import Value
from ..refusals import FIXED, WITHOUT, foreign_ops
from ..shape_spec import InputSpec, InputSpecs, check_size
from .blocked_layout import channel_block
from .branches import with_readers
from .inline import inline_functions, is_handled, type_of
from .inputs import declared_shapes, implied_values, resolve_inputs, written_shapes
from .nesting import every_node, graphs_of, reads
from .op_table import HANDLERS
from .opset6 import in_opset_7
from .reader import OLDEST_OPSET, ModelSource, node_opset, opset_of, read_model
from .run_time import bind_implied, import_for_values, unknown_operands
from .scope import ImportGraph, Listed, NodeContext, Scope, node_name
from .sequences import elements_of, named_results, read_inputs
from .tensors import to_array
from .type_mix import mixed_types
from .wiring import ordered_nodes


def load_onnx(
    source: str | os.PathLike[str] | bytes | ModelProto,
    specs: InputSpecs | None = None,
    constants: Mapping[str, Any] | None = None,
    limits: Limits = MappingProxyType({}),
) -> Graph:
    """Read an ONNX model. `specs` fixes dynamic shapes of the file, `constants` values of inputs, by input name;
    dynamic sizes are within their `limits`.

    An input of a fixed value is no longer one of the graph.

    Raise UserError for errors in the file or the specs, UnsupportedError for everything not handled, in one message.
    """
    parsed = read_model(source)
    opset_of(parsed)
    implied = implied_values(parsed.model.graph)
    # Before inlining, so that messages are about the file.
    ordered_nodes(parsed.model.graph, parsed.label)
    parsed = inline_functions(parsed)
    graph_proto = parsed.model.graph
    _check_supported(ordered_nodes(graph_proto, parsed.label), parsed.label)
    graph = Graph(graph_proto.name or "graph")

    def import_graph(proto: GraphProto, scope: Scope) -> list[Value]:
        nodes = ordered_nodes(proto, parsed.label, scope.values)
        apart = parsed.weights if proto is graph_proto else {}
        _read_weights(proto, nodes, scope, apart)
        scope.channel_block = scope.channel_block or channel_block(nodes, scope.values)
        _import_nodes(nodes, scope, [output.name for output in proto.output])
        return [scope.values[output.name] for output in proto.output]

    scope = _scope_of(parsed, graph, import_graph, limits)
    infos, listed = read_inputs(_arguments(graph_proto), specs or {}, constants or {}, parsed.label)
    fixed = {
        name: np.asarray(value, order="C")
        for name, value in (constants or {}).items()
        if name not in listed
    }
    known = {name: InputSpec(name, from_numpy(x.dtype), x.shape) for name, x in fixed.items()}
    scope.values |= fixed
    _make_inputs(infos, scope, {**(specs or {}), **known}, parsed.label, limits)
    scope.values |= elements_of(scope, listed)
    for name, sizes in implied.items():
        if isinstance(scope.values.get(name), GraphTensor):
            bind_implied(scope, name, sizes)
    try:
        import_graph(graph_proto, scope)
    except NotKnownError as error:
        if error.key in {op.name for op in graph.inputs}:
            given = f"fix the input's value: --constant {error.key}=@value.npy"
            error.said(str(error).replace(FIXED, given))
        raise
    for output in graph_proto.output:
        for name, tensor in named_results(scope, output.name):
            graph.make_output(tensor, name)
    for holds, message in scope.checks or ():
        graph.make_check(holds, message)
    return graph


def _scope_of(
    parsed: ModelSource, graph: Graph, import_graph: ImportGraph, limits: Limits
) -> Scope:
    """The scope of the whole model, with what its file says of values."""
    proto = parsed.model.graph
    shapes = declared_shapes(proto)
    scope = Scope(graph, opset_of(parsed), parsed.folder, import_graph, declared=shapes)
    scope.written_shapes, scope.limits = written_shapes(proto), limits
    return scope


def _check_supported(nodes: list[NodeProto], label: str) -> None:
    inside = (inner for node in nodes for graph in graphs_of(node) for inner in every_node(graph))
    unknown = Counter(
        f"{node.domain}.{node.op_type}" if node.domain else str(node.op_type)
        for node in (*nodes, *inside)
        if not is_handled(node)
    )
    if unknown:
        raise foreign_ops(label, unknown)


def _arguments(proto: GraphProto) -> list[ValueInfoProto]:
    # Before IR version 4 the weights were listed among the inputs too: those are not arguments of the model.
    weights = {tensor.name for tensor in proto.initializer}
    return [info for info in proto.input if info.name not in weights]


def _make_inputs(
    infos: list[ValueInfoProto], scope: Scope, specs: InputSpecs, label: str, limits: Limits
) -> None:
    for name, details in resolve_inputs(infos, specs, label, limits).items():
        check_size(f"{label}: input '{name}'", details.dtype, details.plain_dims)
        scope.size_names.update(symbol.name for symbol in symbols_of(details.plain_dims))
        if name not in scope.values:
            scope.values[name] = scope.graph.make_input(details, name)


def _read_weights(
    proto: GraphProto, nodes: list[NodeProto], scope: Scope, apart: Mapping[str, memoryview]
) -> None:
    """Bind the initializers that are used; the data of some is stored `apart` from the model."""
    used = {x.name for x in proto.output} | {name for node in nodes for name in reads(node)}
    for tensor in proto.initializer:
        if tensor.name in used:
            who, data = f"initializer '{tensor.name}'", apart.get(tensor.name)
            scope.values[tensor.name] = to_array(tensor, who, scope.folder, data)


def _import_nodes(nodes: list[NodeProto], scope: Scope, outputs: Sequence[str]) -> None:
    at = 0
    while at < len(nodes):
        is_oldest = node_opset(nodes[at], scope.opset) == OLDEST_OPSET
        try:
            _import_node(in_opset_7(nodes[at], scope) if is_oldest else nodes[at], scope)
            at += 1
        except UnequalBranchesError as error:
            nodes[at:] = with_readers(nodes[at:], error, outputs)


def _import_node(node: NodeProto, scope: Scope) -> None:
    """Bind the node's outputs: to arrays if all its inputs are small known arrays, else to new tensors."""
    values = {name: scope.values[name] for name in node.input if name}
    # Graphs of a node read more than its inputs, and may run forever; dequantized weights are wanted as such.
    given: list[object] = list(values.values())
    is_kept = graphs_of(node) or node.op_type == "DequantizeLinear" or not values
    is_kept = is_kept or any(isinstance(value, Listed) for value in given)
    foldable = None if is_kept else values.values()

    def run_in(graph: Graph, given: Mapping[str, Value]) -> list[Value]:
        return _run(node, scope.inside(graph, given, values))

    def run(scratch: Graph | None) -> list[Value]:
        if scratch is not None:
            return run_in(scratch, {})
        context = NodeContext(node, scope)
        unknown = unknown_operands(context)
        results = import_for_values(context, unknown, run_in) if unknown else None
        return _run(node, scope) if results is None else results

    results = results_of(node.op_type, node_name(node), foldable, run)
    for name, value in zip(node.output, results, strict=False):
        if name:
            scope.values[name] = value
            if isinstance(value, GraphTensor):  # for tools that compare value by value
                MODEL_VALUES.of(scope.graph)[name] = value.name


def _run(node: NodeProto, scope: Scope) -> list[Value]:
    try:
        results = HANDLERS[type_of(node)](NodeContext(node, scope))
    except UserError as error:
        if mixed := mixed_types(node, scope):
            raise UserError(f"{node.op_type} '{node_name(node)}': {mixed}") from error
        raise
    if not isinstance(results, list):
        results = [results]
    who = f"{node.op_type} '{node_name(node)}'"
    for value in results:
        if isinstance(value, GraphTensor):
            check_size(who, value.details.dtype, value.details.plain_dims)
    missing = [name for name in node.output[len(results) :] if name]
    if missing:
        raise UnsupportedError(
            f"{who}: its output {len(results)} ('{missing[0]}') is not supported", WITHOUT
        )
    return results
