"""Inlines functions: those of the model, and standard ops that ONNX defines in terms of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, inliner

from ...base.errors import UnsupportedError, UserError
from .nesting import every_node
from .op_table import HANDLERS
from .reader import DEFAULT_DOMAINS, ModelSource, opset_of

_ROUNDS = 8  # bodies may hold calls of further functions

MAX_NODES = 1_000_000
"""Of a model after its functions are expanded."""

FunctionId = tuple[str, str]


def inline_functions(source: ModelSource) -> ModelSource:
    """The model with every call expanded that is not an op of the table and has a body.

    UserError if a function of the model calls itself. Calls that cannot be expanded stay, to be listed as unsupported.
    """
    opset = opset_of(source)
    model = _of_one_opset(source.model, opset)
    for _ in range(_ROUNDS):
        local = _called(model, {(f.domain, f.name) for f in model.functions})
        standard = _called(model, _standard_functions(model, opset))
        if local:
            _check_growth(model, source.label)
            expanded = _expand_local(model, source.label)
        elif standard:
            expanded = _expand_standard(model, standard, opset)
        else:
            break
        if _count(expanded) == _count(model) and local:
            break  # the inliner declines, say for a function written for another opset
        model = expanded
        if not local and _called(model, standard):
            break
    return source if model is source.model else replace(source, model=model)


def _of_one_opset(model: ModelProto, opset: int) -> ModelProto:
    """The model whose functions of another opset that mean the same in its own are of that: the inliner wants it so."""
    others = [f for f in model.functions if _opset_of_body(f) != opset]
    same = {(f.domain, f.name) for f in others if _means_the_same(f, _opset_of_body(f), opset)}
    if not same:
        return model
    changed = ModelProto()
    changed.CopyFrom(model)
    for function in changed.functions:
        if (function.domain, function.name) in same:
            for used in function.opset_import:
                used.version = opset if used.domain in DEFAULT_DOMAINS else used.version
    return changed


def _opset_of_body(function: FunctionProto) -> int:
    return max((x.version for x in function.opset_import if x.domain in DEFAULT_DOMAINS), default=0)


def _means_the_same(function: FunctionProto, written: int, opset: int) -> bool:
    """Whether no op of ONNX in the body has another version in the one opset than in the other."""
    names = {n.op_type for n in every_node(function) if n.domain in DEFAULT_DOMAINS}
    return all(
        onnx.defs.has(name, written)
        and onnx.defs.has(name, opset)
        and onnx.defs.get_schema(name, written).since_version
        == onnx.defs.get_schema(name, opset).since_version
        for name in names
    )


def type_of(node: NodeProto) -> str:
    """The node's key in the op table: its op type, prefixed with its domain unless that is the default one."""
    op_type = str(node.op_type)
    return op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}::{op_type}"


def is_handled(node: NodeProto) -> bool:
    """Whether the op table imports the node."""
    return type_of(node) in HANDLERS


def _count(model: ModelProto) -> int:
    return sum(1 for _ in every_node(model.graph))


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


def _check_growth(model: ModelProto, label: str) -> None:
    """UnsupportedError where the calls of the model's functions stand for too many nodes: 30 functions may for 2^30."""
    bodies = {(f.domain, f.name): [*every_node(f)] for f in model.functions}
    sizes: dict[FunctionId, int] = {}
    stack = list(bodies)
    open_: set[FunctionId] = set()
    while stack:
        key = stack[-1]
        called = {(n.domain, n.op_type) for n in bodies[key]} & bodies.keys()
        missing = [one for one in called if one not in sizes and one not in open_]
        if key in sizes or not missing:
            sizes[key] = sizes[key] if key in sizes else _nodes(bodies[key], sizes)
            open_.discard(stack.pop())
        else:  # a function that calls itself is refused by the inliner
            open_.add(key)
            stack += missing
    total = _nodes(every_node(model.graph), sizes)
    if total > MAX_NODES:
        raise UnsupportedError(
            f"{label}: its functions stand for more than {MAX_NODES:,} nodes, the most that graphc expands",
            "export the model in parts",
        )


def _nodes(nodes: Iterable[NodeProto], sizes: Mapping[FunctionId, int]) -> int:
    total = sum(sizes.get((n.domain, n.op_type), 1) for n in nodes)
    return min(total, MAX_NODES + 1)


def _expand_local(model: ModelProto, label: str) -> ModelProto:
    try:
        return inliner.inline_local_functions(model)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise UserError(
            f"{label}: its functions cannot be expanded: {reason}; export it without functions"
        ) from error


def _expand_standard(model: ModelProto, functions: list[FunctionId], opset: int) -> ModelProto:
    explicit = ModelProto()
    explicit.CopyFrom(model)
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
