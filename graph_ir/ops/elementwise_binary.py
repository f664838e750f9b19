"""Elementwise ops of two inputs and more: arithmetic, bits and shifts, which give the inputs' dtype, comparisons, and
select."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dtypes import BOOL
from ...tensor_ir import builder as t
from ...tensor_ir.intrinsics import INTRINSICS
from ...tensor_ir.nodes import Expr
from ..ir.attributes import ChoiceAttr
from .elementwise import ANY, BITS, FLOAT, INTEGER, NUMBER, Row, define
from .elementwise_unary import absolute

COMMUTATIVE = ("add", "mul", "max", "min", "eq", "ne", "and", "or", "xor")
"""Ops whose two operands may be exchanged, comparisons among them."""


def _element(op: str) -> Any:
    return lambda a, b: t.binary(op, a, b)


def _comparison(op: str) -> Any:
    return lambda a, b: t.compare(op, a, b)


def _negative(x: Expr) -> Expr:
    return x < 0


def _differ(a: Expr, b: Expr) -> Expr:
    return a ^ b


# --- division ------------------------------------------------------------------------------------------------------


def divide(a: Expr, b: Expr, rounding: str) -> Expr:
    """a / b; integers rounded by `rounding`: "floor" or "trunc"."""
    quotient = a / b
    if rounding == "floor" or a.dtype.kind != "int":
        return quotient
    # The floor is one below the truncation if the exact quotient is negative and not an integer.
    inexact = t.unequal(a % b, 0)
    negative = _differ(_negative(a), _negative(b))
    return quotient + t.cast(inexact & negative, a.dtype)


def div_reference(a: Any, b: Any, rounding: str) -> Any:
    """Return the result of `divide` on arrays."""
    if a.dtype.kind == "f":
        return a / b
    quotient = np.floor_divide(a, b)
    if rounding == "floor":
        return quotient
    inexact = np.remainder(a, b) != 0
    return quotient + (inexact & ((a < 0) != (b < 0))).astype(a.dtype)


def _mod(a: Expr, b: Expr, sign: str) -> Expr:
    if a.dtype.is_float:
        return _float_mod(a, b, sign)
    remainder = a % b
    if sign == "floor" or a.dtype.kind != "int":
        return remainder
    # A floored remainder has the sign of b; one step of b back gives it the sign of a.
    wrong = t.unequal(remainder, 0) & _differ(_negative(a), _negative(b))
    return remainder - t.select(wrong, b, 0)


def _float_mod(a: Expr, b: Expr, sign: str) -> Expr:
    rest = t.call("fmod", a, b)
    if sign == "trunc":
        return rest
    is_zero = t.equal(rest, 0)
    zero = t.select(_negative(b), t.const(-0.0, rest.dtype, rest.lanes), 0.0)
    wrong = _differ(_negative(rest), _negative(b))
    return t.select(is_zero, zero, t.select(wrong, rest + b, rest))


def _mod_ref(a: Any, b: Any, sign: str) -> Any:
    if sign == "floor":
        return np.remainder(a, b)
    if a.dtype.kind == "f":
        return np.fmod(a, b)
    remainder = np.remainder(a, b)
    wrong = (remainder != 0) & ((a < 0) != (b < 0))
    return remainder - np.where(wrong, b, b.dtype.type(0))


# --- power ---------------------------------------------------------------------------------------------------------


def _pow(a: Expr, b: Expr) -> Expr:
    if a.dtype.is_float:
        return t.call("pow", a, b)
    # base**n over n = bits factors: a larger exponent overflows for every base but -1, 0 and 1.
    power = _int_power(a, b, 0, a.dtype.bits)
    if a.dtype.kind == "uint":
        return t.select(t.equal(a, 1), 1, power)
    power = t.select(_negative(b), 0, power)
    odd = t.unequal(b & 1, 0)
    return t.select(t.equal(absolute(a), 1), t.select(odd, a, 1), power)


def _int_power(base: Expr, exponent: Expr, first: int, count: int) -> Expr:
    """Multiply `count` factors, number i being the base where i < exponent, else 1."""
    if count == 1:
        return t.select(exponent > first, base, 1)
    half = count // 2
    return _int_power(base, exponent, first, half) * _int_power(
        base, exponent, first + half, count - half
    )


def _pow_ref(a: Any, b: Any) -> Any:
    if a.dtype.kind == "f":
        return INTRINSICS["pow"].meaning(a, b)
    one = a.dtype.type(1)
    bits = a.dtype.type(a.dtype.itemsize * 8)
    unit = (a == one) | (a == -1) if a.dtype.kind == "i" else a == one
    exponent = np.where(unit, b & one, np.clip(b, a.dtype.type(0), bits))
    power = np.power(a, exponent)
    return np.where((b < 0) & ~unit, a.dtype.type(0), power)


# --- table ---------------------------------------------------------------------------------------------------------

AB = ("a", "b")

ROWS = (
    Row("add", "a + b.", _element("add"), np.add, NUMBER, AB),
    Row("sub", "a - b.", _element("sub"), np.subtract, NUMBER, AB),
    Row("mul", "a * b.", _element("mul"), np.multiply, NUMBER, AB),
    Row("min", "The smaller operand; NaN if either is NaN.", _element("min"), np.minimum, NUMBER, AB),
    Row("max", "The larger operand; NaN if either is NaN.", _element("max"), np.maximum, NUMBER, AB),
    Row("pow",
        "a to the power b. Integers wrap; exponents count up to the bits of the type, beyond which all bases but -1, 0 "
        "and 1 have overflowed; a negative exponent truncates to 0 (0**-1 is 0 too) unless a is 1 or -1.",
        _pow, _pow_ref, NUMBER, AB),
    Row("atan2", "The angle of the point (b, a) in radians.", lambda a, b: t.call("atan2", a, b), np.arctan2,
        FLOAT, AB),
    Row("and", "Logical and of bools, bit by bit of integers.", _element("and"), np.bitwise_and, BITS, AB),
    Row("or", "Logical or of bools, bit by bit of integers.", _element("or"), np.bitwise_or, BITS, AB),
    Row("xor", "Exclusive or of bools, bit by bit of integers.", _element("xor"), np.bitwise_xor, BITS, AB),
    Row("shl", "a shifted left by b bits; 0 for b >= the bits of the type or negative.", _element("shl"),
        np.left_shift, INTEGER, AB),
    Row("shr", "a shifted right by b bits, copies of the sign moving in; b >= the bits of the type or negative gives "
        "the sign alone.", _element("shr"), np.right_shift, INTEGER, AB),
    Row("div", "a / b; integers round to minus infinity, or to 0 with rounding='trunc'; x / 0 is 0 for integers.",
        divide, div_reference, NUMBER, AB, {"rounding": ChoiceAttr("rounding of integers", "floor", "trunc")}),
    Row("mod",
        "The remainder of a / b, with the sign of b, or of a if sign='trunc'; x mod 0 is 0 for integers, else NaN. "
        "With the sign of a it is exact for every quotient; a zero has the sign that a remainder has.",
        _mod, _mod_ref, NUMBER, AB, {"sign": ChoiceAttr("floor: that of b; trunc: that of a", "floor", "trunc")}),
    Row("eq", "a == b.", _comparison("eq"), np.equal, ANY, AB, result=BOOL),
    Row("ne", "a != b; true for NaN.", _comparison("ne"), np.not_equal, ANY, AB, result=BOOL),
    Row("lt", "a < b.", _comparison("lt"), np.less, ANY, AB, result=BOOL),
    Row("le", "a <= b.", _comparison("le"), np.less_equal, ANY, AB, result=BOOL),
    Row("gt", "a > b.", _comparison("gt"), np.greater, ANY, AB, result=BOOL),
    Row("ge", "a >= b.", _comparison("ge"), np.greater_equal, ANY, AB, result=BOOL),
    Row("select", "x where condition holds, else y; all three broadcast.", t.select, np.where, ANY,
        ("condition", "x", "y"), conditions=1),
)  # fmt: skip
for _row in ROWS:
    define(_row)
