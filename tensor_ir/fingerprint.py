"""A hash of what a function computes: equal for functions that differ only in names."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from ..base.dtypes import DType
from .nodes import Buffer, Function, Var


def fingerprint(function: Function) -> str:
    """SHA-256 of a function except its name and note; variables and buffers are numbered in order of appearance."""
    tokens: list[str] = []
    numbers: dict[str, int] = {}
    leaves: dict[int, tuple[str, Any]] = {}
    stack: list[Any] = [function.body, function.params, function.in_order]
    while stack:
        value = stack.pop()
        kind: Any = type(value)
        if kind is tuple:
            tokens.append(f"({len(value)}")
            stack.extend(value[::-1])
        elif kind is Buffer or kind is Var:
            # The function holds them, so that no other object gets their id.
            known = leaves.get(id(value))
            if known is None:
                known = leaves[id(value)] = _leaf(
                    value, numbers.setdefault(value.name, len(numbers))
                )
            tokens.append(known[0])
            if known[1] is not None:
                stack.append(known[1])
        elif kind is DType:
            tokens.append(str(value))
        elif (names := _fields(kind)) is not None:
            tokens.append(kind.__name__)
            stack.extend([getattr(value, name) for name in names])
        else:
            tokens.append(repr(value))
    return hashlib.sha256("\n".join(tokens).encode()).hexdigest()


def _leaf(value: Buffer | Var, number: int) -> tuple[str, Any]:
    """Return the token of a buffer or a variable, and the shape that follows it where sizes are expressions."""
    if isinstance(value, Var):
        return f"v{number}:{value.dtype}x{value.lanes}", None
    known = all(isinstance(size, int) for size in value.shape)
    shape = value.shape if known else ""
    return f"b{number}:{value.dtype}{shape}{value.storage}", None if known else value.shape


@cache
def _fields(kind: Any) -> tuple[str, ...] | None:
    """Names of the fields of a class of nodes, last first; None for other classes."""
    return tuple(field.name for field in reversed(fields(kind))) if is_dataclass(kind) else None
