"""Inlines functions: those of the model, and standard ops that ONNX defines in terms of others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import onnx
from onnx import AttributeProto, ModelProto, NodeProto, inliner
from onnx.helper import make_tensor_value_info

from .functions import expand_functions
from .nesting import every_graph, every_node
from .op_table import HANDLERS
from .reader import DEFAULT_DOMAINS, ModelSource, opset_of

_ROUNDS = 8  # bodies may hold calls of further functions

FunctionId = tuple[str, str]


def inline_functions(source: ModelSource) -> ModelSource:
    """Return the model with every call expanded that is not an op of the table and has a body.

    Raise UserError if a function of the model calls itself. Calls that cannot be expanded stay, to be listed as
    unsupported.
    """
    opset = opset_of(source)
    model = expand_functions(source.model, opset, source.label)
    for _ in range(_ROUNDS):
        standard = _called(model, _standard_functions(model, opset))
        if not standard:
            break
        model = _expand_standard(model, standard, opset)
        if _called(model, standard):
            break
    return source if model is source.model else replace(source, model=model)


def type_of(node: NodeProto) -> str:
    """The node's key in the op table: its op type, prefixed with its domain unless that is the default one."""
    op_type = str(node.op_type)
    return op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}::{op_type}"


def is_handled(node: NodeProto) -> bool:
    """Return whether the op table imports the node."""
    return type_of(node) in HANDLERS


def _called(model: ModelProto, functions: Iterable[FunctionId]) -> list[FunctionId]:
    wanted = set(functions)
    return sorted({(n.domain, n.op_type) for n in every_node(model.graph)} & wanted)


def _standard_functions(model: ModelProto, opset: int) -> set[FunctionId]:
    """Ops among the nodes that are not in the table, but defined by ONNX in terms of others."""
    names = {
        n.op_type
        for n in every_node(model.graph)
        if n.domain in DEFAULT_DOMAINS and not is_handled(n)
    }
    found: set[FunctionId] = set()
    for name in names:
        if onnx.defs.has(name, opset):
            schema: Any = onnx.defs.get_schema(name, opset)  # the stubs lack the following
            if schema.has_function or schema.has_context_dependent_function:
                found.update((domain, name) for domain in DEFAULT_DOMAINS)
    return found


def _expand_standard(model: ModelProto, functions: list[FunctionId], opset: int) -> ModelProto:
    explicit = ModelProto()
    explicit.CopyFrom(model)
    for graph in every_graph(explicit.graph):  # the inliner does not know the types of initializers
        for held in graph.initializer:
            graph.value_info.append(make_tensor_value_info(held.name, held.data_type, held.dims))
    for node in every_node(explicit.graph):
        if (node.domain, node.op_type) in functions:
            _write_defaults(node, opset)
    try:
        return inliner.inline_selected_functions(explicit, functions, inline_schema_functions=True)
    except (RuntimeError, ValueError):
        return model  # ONNX cannot write the body for these inputs; the op will be listed as unsupported


def _write_defaults(node: NodeProto, opset: int) -> None:
    """Add the attributes that are not given: the inliner would leave them out of the body, defaults or not."""
    given = {attribute.name for attribute in node.attribute}
    for name, attribute in onnx.defs.get_schema(node.op_type, opset).attributes.items():
        default = attribute.default_value
        if name not in given and default.type != AttributeProto.UNDEFINED:
            copy = node.attribute.add()
            copy.CopyFrom(default)
            copy.name = name
