"""Kinds and defaults of op attributes, as rows and formats need them."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from ...base.dtypes import DType, by_name
from ...graph_ir.ir.graph import Array, Op
from ...graph_ir.ir.registry import lookup
from ...graph_ir.ops.elementwise import REQUIRED, Elementwise

KINDS = ("float", "int", "bool", "text", "ints", "floats", "axis", "axes", "dtype")
"""The kinds of values: a number, a flag, a word, lists, axes counted from either end, an element type."""

MUST_BE_GIVEN = REQUIRED
"""Default of an attribute that has none."""

_BY_NAME = {
    "axis": "axis", "axes": "axes", "keep_dims": "bool", "dtype": "dtype", "min": "float", "max": "float",
    "shape": "ints", "perm": "ints", "epsilon": "float", "groups": "int", "exclusive": "bool", "reverse": "bool",
    "transpose_a": "bool", "transpose_b": "bool", "reduction": "text", "last": "bool", "largest": "bool", "k": "int",
    "alpha": "float", "beta": "float",
}  # fmt: skip
_DEFAULTS: dict[str, Any] = {
    "keep_dims": False, "exclusive": False, "reverse": False, "transpose_a": False, "transpose_b": False,
    "last": False, "largest": True, "reduction": "none", "axes": None, "min": None, "max": None, "groups": 1,
}  # fmt: skip
_TYPES: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "text"}


def kind_of(op_name: str, attribute: str) -> str:
    """The kind of an op's attribute."""
    if attribute in _BY_NAME:
        return _BY_NAME[attribute]
    return _TYPES[type(default_of(op_name, attribute))]


def default_of(op_name: str, attribute: str) -> Any:
    """The value of an absent attribute; MUST_BE_GIVEN if it has no default."""
    cls = lookup(op_name)
    if issubclass(cls, Elementwise) and attribute in cls.row.attrs:
        return cls.row.attrs[attribute]
    return _DEFAULTS.get(attribute, MUST_BE_GIVEN)


def attributes_of(op: Op) -> dict[str, Any]:
    """All attributes of an op, absent ones with their defaults; axes counted from the front."""
    found = {key: value for key, value in op.attrs.items() if not key.startswith("temp.")}
    if isinstance(op, Elementwise):
        found = {key: found.get(key, default) for key, default in op.row.attrs.items()} | found
    for key in ("axis", "axes"):
        if hasattr(op, key):
            found[key] = getattr(cast(Any, op), key)
    if "dtype" in found:
        found["dtype"] = (
            found["dtype"] if isinstance(found["dtype"], DType) else by_name(found["dtype"])
        )
    return found


def is_default(op: Op, attribute: str, value: Any) -> bool:
    """Whether an attribute equals its default."""
    return same(value, default_of(op.op_name, attribute))


def same(a: Any, b: Any) -> bool:
    """Whether two values of an attribute mean the same; floats may differ as float32 numbers do."""
    numbers = (int, float)
    if isinstance(a, numbers) and isinstance(b, numbers) and not isinstance(a, bool):
        return math.isclose(a, b, rel_tol=1e-6)
    return bool(a == b)


def as_kind(array: Array, kind: str) -> Any:
    """A constant operand as a value of this kind. ValueError if it has another rank or type."""
    plural = kind in ("ints", "floats", "axes")
    wanted = "iuf" if kind in ("float", "floats") else "iub" if kind == "bool" else "iu"
    if array.dtype.kind not in wanted or array.ndim > 1 or (not plural and array.size != 1):
        raise ValueError(f"{array.dtype.name}{list(array.shape)}")
    items = array.reshape(-1).tolist()
    return tuple(items) if plural else bool(items[0]) if kind == "bool" else items[0]


def as_array(value: Any, kind: str) -> Array:
    """The constant operand that holds a value: integers are s64."""
    return np.asarray(value, np.float32 if kind in ("float", "floats") else np.int64)
