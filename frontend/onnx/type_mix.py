"""Nodes whose operands have types that ONNX does not allow together: then the file is wrong, not graphc's reading."""

from __future__ import annotations

from onnx import NodeProto, defs

from ..correspondence.scoped import details_of
from .reader import DEFAULT_DOMAINS
from .scope import Listed, Scope


def mixed_types(node: NodeProto, scope: Scope) -> str:
    """A sentence about operands that must have one type and do not; "" where there are none."""
    if node.domain not in DEFAULT_DOMAINS or not defs.has(node.op_type, scope.opset):
        return ""
    formals = defs.get_schema(node.op_type, scope.opset).inputs
    kinds: dict[str, dict[str, str]] = {}
    for number, name in enumerate(node.input):
        formal = formals[min(number, len(formals) - 1)] if formals else None
        value: object = scope.values.get(name)
        if (
            formal is None
            or not name
            or isinstance(value, Listed)
            or "(" in formal.type_str
            or not formal.is_homogeneous
        ):
            continue
        dtype = str(details_of(scope.values[name]).dtype)
        kinds.setdefault(formal.type_str, {}).setdefault(dtype, name)
    for found in kinds.values():
        if len(found) > 1:
            shown = " and ".join(f"'{name}' {dtype}" for dtype, name in found.items())
            return (
                f"ONNX demands one type of these operands, got {shown}: the file is not valid ONNX, "
                "and what exported it is to blame; export it anew in one type, or insert a Cast"
            )
    return ""
