"""Index arithmetic as Python functions: the expressions of most nodes, which are few and return in every program.

before   a[i * 16 + j], a of 400 elements
after    lambda slow: lambda env: a0 if 0 <= (a0 := env['i'] * 16 + env['j']) < 400 else slow(env)

Intermediate results are not wrapped to 64 bits on the way: what is between 0 and a size at the end is right all the
same. A function of one text is compiled once per process, as that takes longer than to call it a hundred times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ..base.dtypes import S64
from .builder import S64_MAX, S64_MIN, wrap_s64
from .nodes import Binary, Const, Expr, Var

Env = dict[str, Any]
Index = Callable[[Env], int]

_DEEPEST = 25
"""Nested operators; deeper ones are rare, and Python's parser has a limit."""

_SUMS = {"add": "+", "sub": "-", "mul": "*"}
_QUOTIENTS = {"div": "//", "mod": "%"}


def index_function(e: Expr) -> Index | None:
    """The value of a scalar s64 of variables, numbers and common operators; None for any other."""
    text = _sum(e, 0)
    if text is None:
        return None
    return _function(f"lambda env: x if {S64_MIN} <= (x := {text}) <= {S64_MAX} else wrap(x)")


def flat_index_function(
    extents: Sequence[int | Expr], indices: Sequence[Expr], touched: int, slow: Index
) -> Index | None:
    """The flat index of an element, or what `slow` says where not all `touched` elements from it on are inside."""
    if not indices:
        return None
    sizes = [str(x) if isinstance(x, int) else _exact(x, 0) for x in extents]
    sums = [_sum(index, 0) for index in indices]
    terms, at = [], ""
    for axis, (index, size) in enumerate(zip(sums, sizes, strict=True)):
        if index is None or size is None:
            return None
        terms.append(f"0 <= (a{axis} := {index})" + (f" < {size}" if touched else ""))
        at = f"({at}) * {size} + a{axis}" if at else "a0"
    if touched != 1:
        terms.append(f"(at := {at}) + {touched} <= {' * '.join(map(str, sizes))}")
        at = "at"
    made: Callable[[Index], Index] = _function(
        f"lambda slow: lambda env: {at} if {' and '.join(terms)} else slow(env)"
    )
    return made(slow)


@lru_cache(maxsize=1 << 14)
def _function(text: str) -> Any:
    return eval(text, {"wrap": wrap_s64, "min": min, "max": max})  # only what this file writes


def _sum(e: Expr, depth: int) -> str | None:
    """The text of a number that is the value modulo 2**64."""
    if isinstance(e, Binary) and e.op in _SUMS and e.lanes == 1 and e.dtype == S64:
        if depth > _DEEPEST:
            return None
        left, right = _sum(e.left, depth + 1), _sum(e.right, depth + 1)
        return None if left is None or right is None else f"({left} {_SUMS[e.op]} {right})"
    return _exact(e, depth)


def _exact(e: Expr, depth: int) -> str | None:
    """The text of the value itself."""
    if e.dtype != S64 or e.lanes != 1 or depth > _DEEPEST:
        return None
    if isinstance(e, Const):
        return f"({int(e.value)})"
    if isinstance(e, Var):
        return f"env[{e.name!r}]"
    if not isinstance(e, Binary):
        return None
    if e.op in _SUMS:
        text = _sum(e, depth)
        return None if text is None else f"wrap({text})"
    left, right = _exact(e.left, depth + 1), _exact(e.right, depth + 1)
    if left is None or right is None:
        return None
    if e.op in _QUOTIENTS and isinstance(e.right, Const) and e.right.value > 0:
        return f"({left} {_QUOTIENTS[e.op]} {right})"
    return f"{e.op}({left}, {right})" if e.op in ("min", "max") else None
