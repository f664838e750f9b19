"""Checks the definition of an op: its name, operands and attributes become the members of a class."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from ..base.errors import UserError
from ..graph_ir.ir.attributes import Attribute, BoolAttr, FloatAttr, IntAttr, StrAttr
from ..graph_ir.ir.axis_attributes import FloatsAttr, IntsAttr
from ..graph_ir.ir.operands import Operand, OptionalOperand, VariadicOperand
from ..graph_ir.ir.registry import is_own
from ..graph_ir.ir.schema import OperandDeclaration
from .defined_op import ComposedOp, DefinedElementwise, KernelOp

Operands = str | Sequence[str] | Mapping[str, str]
"""Names in order, with their meanings in a mapping: `x`, `scale?` where it may be absent, `parts...` for any number."""

Attributes = Mapping[str, Any]
"""A declaration such as `FloatAttr("slope", default=0.1)`, a default, or the type of a required attribute, by name."""

_CLASSES = (DefinedElementwise, ComposedOp, KernelOp)
_OF_ALL = (
    "op_name",
    "name",
    "inputs",
    "outputs",
    "attrs",
    "logical_op_id",
    "schedule",
    "row",
    "definition",
)
_BY_TYPE: dict[type, type[Attribute[Any]]] = {
    bool: BoolAttr,
    int: IntAttr,
    float: FloatAttr,
    str: StrAttr,
}


def check_name(name: str) -> None:
    """Raise UserError for a name that an op of user code cannot have."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise UserError(
            f"op name must be letters, digits and _, not beginning with a digit, got {name!r}"
        )
    if is_own(name):
        raise UserError(f"op '{name}' must have a unique name: graphc has an op of this name")


def operand_members(who: str, operands: Operands) -> dict[str, OperandDeclaration]:
    """Declarations by name, in order. May raise UserError."""
    texts = {operands: ""} if isinstance(operands, str) else operands
    pairs = texts.items() if isinstance(texts, Mapping) else [(text, "") for text in texts]
    found: dict[str, OperandDeclaration] = {}
    for text, meaning in pairs:
        name = text.removesuffix("?").removesuffix("...")
        _check_member(who, "operand", name, found)
        kind = (
            VariadicOperand
            if text.endswith("...")
            else OptionalOperand
            if text.endswith("?")
            else Operand
        )
        found[name] = kind(meaning)
        found[name].name = name  # until a class has it
    ranks = [operand.optional + 2 * operand.variadic for operand in found.values()]
    if ranks != sorted(ranks) or ranks.count(2) > 1:
        raise UserError(
            f"{who}: operands that must be given come first, then optional ones, then one of any number, "
            f"got {', '.join(x.text() for x in found.values())}"
        )
    return found


def attribute_members(
    who: str, attrs: Attributes, taken: Mapping[str, Any]
) -> dict[str, Attribute[Any]]:
    """Declarations by name. Raise UserError for a name that is taken, or what is neither a declaration nor a
    default."""
    found: dict[str, Attribute[Any]] = {}
    for name, given in attrs.items():
        _check_member(who, "attribute", name, {**taken, **found})
        found[name] = _named(_declaration(who, name, given), name)
    return found


def _declaration(who: str, name: str, given: Any) -> Attribute[Any]:
    if isinstance(given, Attribute):
        return given
    if isinstance(given, type) and given in _BY_TYPE:
        return _BY_TYPE[given]()
    if type(given) in _BY_TYPE:
        return _BY_TYPE[type(given)](default=given)
    if isinstance(given, (tuple, list)) and all(type(item) in (int, float) for item in given):
        has_floats = any(type(item) is float for item in given)
        return FloatsAttr(default=tuple(given)) if has_floats else IntsAttr(default=tuple(given))
    raise UserError(
        f"{who}: attribute '{name}' must be a declaration, a default or a type (bool, int, float, str), got {given!r}"
    )


def _named(attribute: Attribute[Any], name: str) -> Attribute[Any]:
    """A copy for this op: one declaration may be given to several."""
    twin = copy(attribute)
    twin.key = name
    inner = getattr(twin, "inner", None)
    if isinstance(inner, Attribute):
        vars(twin)["inner"] = _named(inner, name)
    return twin


def _check_member(who: str, kind: str, name: str, taken: Mapping[str, Any]) -> None:
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
        raise UserError(
            f"{who}: the name of an {kind} must be that of a Python variable, got {name!r}"
        )
    if name in taken:
        raise UserError(f"{who}: names of operands and attributes must differ, got '{name}' twice")
    if any(hasattr(cls, name) for cls in _CLASSES) or name in _OF_ALL:
        raise UserError(f"{who}: every op has a member '{name}'; give the {kind} another name")
