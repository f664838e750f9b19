"""Rules of legal expressions, one per kind, for the verifier."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ..base.dtypes import BOOL, F32, F64, S32, DType
from .analysis import integer_literal
from .intrinsics import INTRINSICS, WIDEST_ZERO, Intrinsic
from .nodes import (
    BINARY_OPS,
    COMPARE_OPS,
    UNARY_OPS,
    Binary,
    Broadcast,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Ramp,
    Select,
    Shuffle,
    Unary,
)

_FLOAT_OPS = ("sqrt", "floor", "ceil", "trunc", "round_even")
_BIT_OPS = ("and", "or", "xor", "shl", "shr")


def type_text(e: Expr) -> str:
    """An expression's element type and lanes, as messages show it."""
    return f"{e.dtype}" if e.lanes == 1 else f"{e.dtype} x {e.lanes}"


Broken = Iterator[str]


def _agree(a: Expr, b: Expr) -> Broken:
    if a.dtype != b.dtype or a.lanes != b.lanes:
        yield f"operands must agree, got {type_text(a)} and {type_text(b)}"
    if a.dtype.is_storage:
        yield f"{a.dtype} is computed with as {a.dtype.accumulator}"


def _unary(e: Unary) -> Broken:
    if e.op not in UNARY_OPS:
        yield f"'{e.op}' is not a unary operator"
    if (e.op in _FLOAT_OPS and not e.dtype.is_float) or (e.op == "not" and e.dtype.is_float):
        yield f"{e.op} does not take {e.dtype}"
    if e.op != "not" and e.dtype == BOOL:
        yield f"{e.op} does not take bool"
    yield from _agree(e.operand, e.operand)


def _binary(e: Binary) -> Broken:
    if e.op not in BINARY_OPS:
        yield f"'{e.op}' is not a binary operator"
    if e.op in _BIT_OPS and e.dtype.is_float:
        yield f"{e.op} does not take {e.dtype}"
    if e.op not in ("and", "or", "xor") and e.dtype == BOOL:
        yield f"{e.op} does not take bool"
    if e.op == "larger" and not e.dtype.is_float:
        yield f"{e.op} does not take {e.dtype}"
    yield from _agree(e.left, e.right)


def _compare(e: Compare) -> Broken:
    if e.op not in COMPARE_OPS:
        yield f"'{e.op}' is not a comparison"
    yield from _agree(e.left, e.right)


def _select(e: Select) -> Broken:
    if e.condition.dtype != BOOL or e.condition.lanes != e.then.lanes:
        yield f"the condition of a select must be bool in {e.then.lanes} lanes, got {type_text(e.condition)}"
    if e.then.dtype != e.otherwise.dtype or e.then.lanes != e.otherwise.lanes:
        yield f"arms must agree, got {type_text(e.then)} and {type_text(e.otherwise)}"


def _broadcast(e: Broadcast) -> Broken:
    if e.operand.lanes != 1 or e.lanes < 1:
        yield f"a broadcast takes a scalar to at least 1 lane, got {type_text(e.operand)} to {e.lanes}"


def _ramp(e: Ramp) -> Broken:
    if e.base.lanes != 1 or e.base.dtype.kind not in ("int", "uint") or e.lanes < 1:
        yield f"a ramp starts at an integer scalar, got {type_text(e.base)}"


def _shuffle(e: Shuffle) -> Broken:
    if (e.left.dtype, e.left.lanes) != (e.right.dtype, e.right.lanes):
        yield f"operands must agree, got {type_text(e.left)} and {type_text(e.right)}"
    if min(e.lanes, e.left.lanes) < 2:
        yield f"a shuffle takes and gives vectors, got {type_text(e.left)} to {e.lanes}"
    if not all(0 <= i < 2 * e.left.lanes for i in e.pattern):
        yield f"a shuffle chooses among {2 * e.left.lanes} lanes, got {list(e.pattern)}"


def _call(e: Call) -> Broken:
    known = INTRINSICS.get(e.name)
    if known is None or known.arity != len(e.args):
        yield f"'{e.name}' is not an intrinsic of {len(e.args)} arguments"
    elif not _takes(known, e.dtype):
        yield f"{e.name} does not take {e.dtype}"
    elif known.retypes:
        one, other = ((x.dtype.bits, x.lanes) for x in (e.args[0], e))
        if one != other and (min(one[0], other[0]) < 8 or math.prod(one) != math.prod(other)):
            yield f"{e.name} takes as many bits as it gives, got {type_text(e.args[0])} and {type_text(e)}"
    elif known.group:
        yield from _dot(e, known)
    elif known.narrows:
        yield from _narrowing(e)
    elif known.index and ((e.args[-1].dtype, e.dtype) != (known.index, F32) or e.lanes == 1):
        yield f"{e.name} takes vectors of f32 and of {known.index}, got {' and '.join(map(type_text, e.args))}"
    elif any(a.dtype != e.dtype for a in (e.args[:-1] if known.index else e.args)):
        yield f"arguments of {e.name} must be {e.dtype}"
    elif (e.lanes != 1) if known.reduces else any(a.lanes != e.lanes for a in e.args):
        yield f"lanes of {e.name} do not agree"


def _narrowing(e: Call) -> Broken:
    x, zero = e.args
    if (
        (x.dtype, zero.dtype) != (F32, S32)
        or e.dtype.kind not in ("int", "uint")
        or e.dtype.bits not in (8, 16)
    ):
        types = f"{type_text(x)} and {type_text(zero)} to {e.dtype}"
        yield f"{e.name} takes f32 and s32 to an integer of 8 or 16 bits, got {types}"
    elif {x.lanes, zero.lanes} != {e.lanes}:
        yield f"lanes of {e.name} do not agree"
    elif (literal := integer_literal(zero)) is None or abs(literal) > WIDEST_ZERO:
        yield f"{e.name} adds a literal of at most {WIDEST_ZERO}"


def _dot(e: Call, known: Intrinsic) -> Broken:
    acc, a, b = e.args
    if (a.dtype, b.dtype, acc.dtype) not in known.operands or acc.dtype != e.dtype:
        types = f"{type_text(acc)}, {type_text(a)} and {type_text(b)}"
        yield f"{e.name} does not take {types} to {e.dtype}"
    elif acc.lanes != e.lanes or {a.lanes, b.lanes} != {known.group * e.lanes}:
        yield f"{e.name} takes {known.group} lanes of a and b for each of acc, got {a.lanes} and {b.lanes}"


def _takes(known: Intrinsic, dtype: DType) -> bool:
    """Return whether an intrinsic has a result of `dtype`."""
    if (known.float_only and not dtype.is_float) or (known.no_f64 and dtype == F64):
        return False
    return _reduces(known.name, dtype)


def _reduces(name: str, dtype: DType) -> bool:
    """Return whether the operator of a reduction, if it is one, takes `dtype`."""
    if name in ("reduce_and", "reduce_or"):
        return not dtype.is_float
    if name == "reduce_larger":
        return dtype.is_float
    return not (name.startswith("reduce_") and dtype == BOOL)


def _const(e: Const) -> Broken:
    if e.dtype.kind in ("int", "uint"):
        low, high = e.dtype.limits
        if not low <= e.value <= high:
            yield f"constant {e.value} does not fit {e.dtype}"


RULES: dict[type, Callable[[Any], Broken]] = {
    Const: _const,
    Unary: _unary,
    Binary: _binary,
    Compare: _compare,
    Select: _select,
    Broadcast: _broadcast,
    Ramp: _ramp,
    Shuffle: _shuffle,
    Call: _call,
    Cast: lambda e: iter(()),
}
