"""Kinds and defaults of op attributes, as rows and formats need them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...graph_ir.ir.attributes import INTERNAL, REQUIRED
from ...graph_ir.ir.graph import Array, Op
from ...graph_ir.ir.registry import lookup, schema_of
from ...graph_ir.ops.elementwise import Elementwise, Row

KINDS = ("float", "int", "bool", "text", "ints", "floats", "axis", "axes", "single", "dtype")
"""The kinds of values: a number, a flag, a word, lists, axes counted from either end, a list of one
integer, an element type."""

MUST_BE_GIVEN = REQUIRED
"""Default of an attribute that has none."""

_KINDS = {"str": "text", "number": "float", "permutation": "ints", "sizes": "ints", "size": "int"}

_MUST_BE = {
    "int": "an integer", "axis": "an integer", "float": "a number", "bool": "true or false", "text": "a string",
}  # fmt: skip


def kind_of(op_name: str, attribute: str) -> str:
    """Return the kind of an attribute of an op."""
    type_name = schema_of(op_name).attribute(op_name, attribute).type_name
    return _KINDS.get(type_name, type_name)


def default_of(op_name: str, attribute: str) -> Any:
    """The value of an absent attribute; MUST_BE_GIVEN where there is none."""
    return schema_of(op_name).attribute(op_name, attribute).default


def elementwise(op_name: str) -> Row | None:
    """The declaration of an elementwise op; None for other ops."""
    cls = lookup(op_name)
    return cls.row if issubclass(cls, Elementwise) else None


def conditions_of(op_name: str) -> int:
    """The number of leading operands of an op that are bools independently of the others."""
    row = elementwise(op_name)
    return 0 if row is None else row.conditions


def attributes_of(op: Op) -> dict[str, Any]:
    """All attributes of an op, absent ones with their defaults; axes counted from the front."""
    return {key: op.attr(key) for key in op.schema.attributes if not key.startswith(INTERNAL)}


def same(a: Any, b: Any) -> bool:
    """Return whether two values of an attribute mean the same; floats may differ as float32 numbers do."""
    numbers = (int, float)
    if isinstance(a, numbers) and isinstance(b, numbers) and not isinstance(a, bool):
        return math.isclose(a, b, rel_tol=1e-6)
    return bool(a == b)


def as_kind(array: Array, kind: str) -> Any:
    """A constant operand as a value of this kind. Raise ValueError if it has another rank or type.

    Integers may be dynamic sizes, in an array of objects.
    """
    plural = kind in ("ints", "floats", "axes")
    wanted = "iuf" if kind in ("float", "floats") else "iub" if kind == "bool" else "iuO"
    if array.dtype.kind not in wanted or array.ndim > 1 or (not plural and array.size != 1):
        raise ValueError(f"{array.dtype.name}{list(array.shape)}")
    items = array.reshape(-1).tolist()
    return tuple(items) if plural else bool(items[0]) if kind == "bool" else items[0]


def understood(value: Any, kind: str) -> Any:
    """A literal of a file as a value of this kind; ValueError, saying what it must be, for any other.

    Lists may be nested; one integer counts as a list of it, and 0 and 1 as flags.
    """
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if kind in ("ints", "axes"):
        items = value if isinstance(value, (list, tuple)) else (value,)
        is_nested = isinstance(value, (list, tuple))
        if not is_nested and not is_integer:
            raise ValueError("integers")
        return tuple(i for x in items for i in (understood(x, kind) if is_nested else (x,)))
    if kind == "single":
        items = understood(value, "ints")
        if len(items) != 1:
            raise ValueError("one integer")
        return items[0]
    if kind in ("int", "axis") and is_integer:
        return value
    if kind == "float" and (is_integer or isinstance(value, float)):
        return float(value)
    if kind == "bool" and isinstance(value, int):
        return bool(value)
    if kind == "text" and isinstance(value, str):
        return value
    raise ValueError(_MUST_BE[kind])


def as_array(value: Any, kind: str) -> Array:
    """The constant operand that holds a value: integers are s64."""
    value = (value,) if kind == "single" else value
    return np.asarray(value, np.float32 if kind in ("float", "floats") else np.int64)
