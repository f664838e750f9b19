"""Arithmetic on values of less than 16 bits that stays inside a kernel: every op rounds or wraps to the type."""

from __future__ import annotations

from collections.abc import Callable

from ....base.dtypes import F8E8M0FNU, SMALL, DType
from ....graph_ir.ir.graph import GraphTensor
from ..scope import Scope

_TYPES = tuple((dtype, 1) for dtype in SMALL if dtype is not F8E8M0FNU)
_OPS = ("add", "sub", "mul", "min", "max", "neg", "abs")
_OF_INTEGERS = ("and", "or", "xor", "not")


def narrow(scope: Scope) -> None:
    """A tensor converted to a narrow type, a few ops on it, and the result converted to a wide one."""
    dtype = scope.weighted(_TYPES)
    kinds = ("float",) if dtype.is_float else ("int", "uint")
    x = _cast(scope, scope.any(kinds), dtype)
    for _ in range(scope.random.randint(1, 4)):
        name = scope.random.choice(_OPS if dtype.is_float else (*_OPS, *_OF_INTEGERS))
        if name in ("neg", "abs", "not"):
            x = scope.one(name, x)
        else:
            other = _cast(
                scope, scope.broadcasting(_wide(scope, dtype), x.details.plain_dims), dtype
            )
            x = scope.one(name, x, other)
    _cast(scope, x, _wide(scope, dtype))


def _wide(scope: Scope, dtype: DType) -> DType:
    return scope.dtype(("float",) if dtype.is_float else ("int", "uint"))


def _cast(scope: Scope, x: GraphTensor, dtype: DType) -> GraphTensor:
    return scope.one("cast", x, dtype=dtype.name)


RECIPES: dict[str, Callable[[Scope], None]] = {"narrow types": narrow}
