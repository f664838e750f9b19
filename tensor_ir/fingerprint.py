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
    stack: list[Any] = [function.body, function.params]
    while stack:
        value = stack.pop()
        kind: Any = type(value)
        if kind is tuple:
            tokens.append(f"({len(value)}")
            stack.extend(reversed(value))
        elif kind is Buffer:
            number = numbers.setdefault(value.name, len(numbers))
            known = all(isinstance(size, int) for size in value.shape)
            tokens.append(f"b{number}:{value.dtype}{value.shape if known else ''}{value.storage}")
            if not known:
                stack.append(value.shape)
        elif kind is Var:
            number = numbers.setdefault(value.name, len(numbers))
            tokens.append(f"v{number}:{value.dtype}x{value.lanes}")
        elif kind is DType:
            tokens.append(str(value))
        elif is_dataclass(value):
            tokens.append(kind.__name__)
            stack.extend(getattr(value, name) for name in _fields(kind))
        else:
            tokens.append(repr(value))
    return hashlib.sha256("\n".join(tokens).encode()).hexdigest()


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    """Names of a node's fields, last first."""
    return tuple(field.name for field in reversed(fields(kind)))
