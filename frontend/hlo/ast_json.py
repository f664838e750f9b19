"""The syntax tree of a module as plain data for JSON, in the words of the article that first parsed HLO text so:

functions with parameters, result types and a body; instructions with a variable's name, a call and `Meta`, the
attributes, each with one of `Value`, `DictValue`, `ListNums`, `ListSlices`.
"""

from __future__ import annotations

import re
from typing import Any

from .literal_text import write_literal
from .shapes import Shape
from .syntax import (
    Attribute,
    Called,
    Computation,
    Instruction,
    Literal,
    Module,
    Raw,
    SliceRange,
    Word,
)

_PAIR = re.compile(r'([\w.]+)=("(?:\\.|[^"\\])*"|\{[^{}]*\}|[^\s{}]+)')


def to_ast(module: Module) -> dict[str, Any]:
    """`{"Functions": [...]}`, in the order of the text."""
    return {"Functions": [_function(one) for one in module.computations.values()]}


def _function(one: Computation) -> dict[str, Any]:
    if one.signature:
        parameters, result = one.signature
    else:
        parameters = tuple((p.name, p.shape) for p in one.parameters if p.shape)
        found = next(i.shape for i in one.instructions if i.name == one.root)
        result = found or Shape("tuple")
    return {
        "Name": f"%{one.name}",
        "Params": [{"Name": name, "Type": _plain(shape)} for name, shape in parameters],
        "ReturnTypes": [_plain(shape) for shape in _parts(result)],
        "Body": [_instruction(i) for i in one.instructions],
    }


def _parts(shape: Shape) -> tuple[Shape, ...]:
    return shape.elements if shape.is_tuple else (shape,)


def _plain(shape: Shape) -> dict[str, Any]:
    return {"DataType": shape.type, "Dimensions": list(shape.dims)}


def _rich(shape: Shape) -> dict[str, Any]:
    layout = {"Layout": list(shape.layout.minor_to_major)} if shape.layout else {}
    return {"VarType": shape.type, "VarDim": list(shape.dims), **layout}


def _instruction(i: Instruction) -> dict[str, Any]:
    types = [_rich(shape) for shape in _parts(i.shape)] if i.shape else []
    call = {"ReturnTypes": types, "Name": i.opcode, "Params": _operands(i)}
    meta = [_meta(key, value) for key, value in i.attributes.items()]
    return {"VarName": f"%{i.name}", "Fn": call, **({"Meta": meta} if meta else {})}


def _operands(i: Instruction) -> list[dict[str, Any]]:
    if i.opcode == "parameter":
        return [{"Name": str(i.number)}]
    if i.literal is not None:
        return [{"Name": _literal(i.literal)}]
    return [
        {**({"Type": _rich(x.shape)} if x.shape else {}), "Name": f"%{x.name}"} for x in i.operands
    ]


def _literal(literal: Literal) -> str:
    if isinstance(literal.value, tuple):
        return f"({', '.join(map(_literal, literal.value))})"
    return "{...}" if literal.value is None else write_literal(literal.value)


def _meta(key: str, value: Attribute) -> dict[str, Any]:
    if isinstance(value, Raw):
        pairs = _PAIR.findall(value.text) if value.text.startswith("{") else []
        if pairs:
            return {"Key": key, "DictValue": [{"Key": k, "Value": v} for k, v in pairs]}
        return {"Key": key, "Value": value.text}
    if isinstance(value, tuple) and all(type(item) is int for item in value):
        return {"Key": key, "ListNums": list(value)}
    if isinstance(value, tuple) and all(isinstance(item, SliceRange) for item in value):
        slices = [{"Start": s.start, "End": s.limit, "Stride": s.stride} for s in value]  # type: ignore[union-attr]
        return {"Key": key, "ListSlices": slices}
    return {"Key": key, "Value": attribute_text(value)}


def attribute_text(value: Any) -> str:
    """The text of an attribute."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, Called):
        return f"%{value.name}"
    if isinstance(value, Word):
        return value.text
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"{{{', '.join(map(attribute_text, value))}}}"
    if isinstance(value, tuple):
        shown = zip(value._fields, value, strict=True)  # type: ignore[attr-defined]
        return " ".join(f"{key}={item}" for key, item in shown)
    return str(value).lower() if isinstance(value, bool) else str(value)
