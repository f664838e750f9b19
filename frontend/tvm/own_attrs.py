"""The exact op in a node's attributes, which our writer leaves there and other readers pass over: x_op and x_attrs."""

from __future__ import annotations

import json
from typing import Any

from ...base.dtypes import DType
from ...base.errors import UnsupportedError, UserError
from ...graph_ir.ir.graph import Graph, GraphTensor, Op
from ...graph_ir.ir.registry import names
from .document import Node

OP_KEY = "x_op"
ATTRS_KEY = "x_attrs"


def own_op(node: Node) -> tuple[str, dict[str, Any]] | None:
    """The op name and attributes our writer left; None in a file of TVM's. Raise UserError if they are corrupt."""
    if OP_KEY not in node.attrs or ATTRS_KEY not in node.attrs:
        return None
    try:
        attrs = json.loads(node.attrs[ATTRS_KEY])
    except (ValueError, RecursionError) as error:
        shown = node.attrs[ATTRS_KEY][:40]
        raise UserError(f"attribute '{ATTRS_KEY}' must be JSON, got {shown!r}") from error
    if not isinstance(attrs, dict):
        raise UserError(f"attribute '{ATTRS_KEY}' must be a JSON object, got {str(attrs)[:40]}")
    if node.attrs[OP_KEY] not in names():
        raise UnsupportedError(
            f"node '{node.name}': op '{node.attrs[OP_KEY]}' is not in the registry",
            "define it (`graphc.ops.define`) before the file is read",
        )
    return node.attrs[OP_KEY], attrs


def own_attrs(op: Op) -> dict[str, str]:
    """Return the attributes to write into a node for `own_op`. Raise UnsupportedError for an attribute JSON cannot
    hold."""
    shown = {key: value for key, value in op.attrs.items() if not key.startswith("temp.")}
    try:
        return {OP_KEY: op.op_name, ATTRS_KEY: json.dumps(shown, default=_encoded)}
    except TypeError as error:
        raise UnsupportedError(f"{op.op_name} '{op.name}': {error}") from error


def make_own(
    graph: Graph, own: tuple[str, dict[str, Any]], operands: list[GraphTensor], name: str
) -> list[GraphTensor]:
    """Append the op that `own_op` found. Raise UserError if its attributes are not what it takes."""
    op_name, attrs = own
    if op_name in ("input", "constant", "output", "fused", "kernel_call"):
        raise UserError(f"attribute '{OP_KEY}' must be an op that computes, got '{op_name}'")
    return graph.make(op_name, operands, attrs, name).outputs


def _encoded(value: Any) -> Any:
    if isinstance(value, DType):
        return value.name
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value.item()
    raise TypeError(f"an attribute of type {type(value).__name__} cannot be written to a TVM graph")
