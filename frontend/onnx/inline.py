"""Replace calls of functions by their bodies: functions of the model, and standard ops that ONNX defines by others."""

from __future__ import annotations

from dataclasses import replace

import onnx
from onnx import ModelProto, NodeProto, inliner

from ...errors import UserError
from .op_table import HANDLERS
from .reader import DEFAULT_DOMAINS, ModelSource, opset_of

_ROUNDS = 8  # bodies may hold calls of further functions

FunctionId = tuple[str, str]


def inline_functions(source: ModelSource) -> ModelSource:
    """The model with every call inlined that is no op of the table. UserError where a function calls itself."""
    model = source.model
    for _ in range(_ROUNDS):
        wanted = _to_inline(model, opset_of(source))
        if not wanted:
            break
        expanded = _inlined(model, wanted, source.label)
        if (
            len(expanded.graph.node) == len(model.graph.node)
            and _to_inline(expanded, opset_of(source)) == wanted
        ):
            break  # the inliner declines, say for a function written for another opset
        model = expanded
    return source if model is source.model else replace(source, model=model)


def is_handled(node: NodeProto) -> bool:
    """Whether the op table imports the node."""
    return node.domain in DEFAULT_DOMAINS and node.op_type in HANDLERS


def _to_inline(model: ModelProto, opset: int) -> list[FunctionId]:
    local = {(f.domain, f.name) for f in model.functions}
    found = {
        (node.domain, node.op_type)
        for node in model.graph.node
        if (node.domain, node.op_type) in local
        or (not is_handled(node) and _has_body(node.op_type, node.domain, opset))
    }
    return sorted(found)


def _has_body(op_type: str, domain: str, opset: int) -> bool:
    if domain not in DEFAULT_DOMAINS or not onnx.defs.has(op_type, opset):
        return False
    schema = onnx.defs.get_schema(op_type, opset)
    return bool(schema.has_function or schema.has_context_dependent_function)


def _inlined(model: ModelProto, functions: list[FunctionId], label: str) -> ModelProto:
    try:
        return inliner.inline_selected_functions(model, functions, inline_schema_functions=True)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{label}: its functions cannot be expanded: {reason}") from error
