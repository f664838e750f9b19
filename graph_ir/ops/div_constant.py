"""Division by a constant, created by the pass `divide_by_constants`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dtypes import F64
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.attributes import ChoiceAttr, FloatAttr
from .elementwise import NUMBER, Row, define
from .elementwise_binary import div_reference


def reciprocal_parts(divisor: float) -> tuple[float, float]:
    """1 / divisor as the sum of two f32 of one sign, the first rounded toward zero."""
    reciprocal = 1.0 / divisor
    high = np.float32(reciprocal)
    if abs(float(high)) > abs(reciprocal):
        high = np.nextafter(high, np.float32(0))
    return float(high), float(np.float32(reciprocal - float(high)))


def _quotient(x: Expr, divisor: float, rounding: str) -> Expr:
    """x / divisor without a division."""
    return _of_float(x, divisor) if x.dtype.is_float else _of_integer(x, int(divisor), rounding)


def _of_integer(x: Expr, divisor: int, rounding: str) -> Expr:
    """The floor, of which code generation makes a multiplication as the divisor is a literal.

    The quotient of a negative x towards 0 is the floor of (x + divisor - 1) / divisor, a sum that cannot overflow.
    """
    if rounding == "trunc" and x.dtype.kind == "int":
        sign = x >> x.dtype.bits - 1
        x = x + (sign & divisor - 1)
    return x / divisor


def _of_float(x: Expr, divisor: float) -> Expr:
    """x / divisor as a multiplication and a fused multiply-add, in at most a quarter of the time of a division.

    The two parts hold 48 bits of the reciprocal, so the quotient is correctly rounded unless it is within 2**-22 ULP of
    the midpoint of two floats: error <= 0.500001 ULP, or <= 1 where it is below 2**-102. Both parts have the divisor's
    sign, so infinity stays infinity. After Brisebarre and Muller, Correctly Rounded Multiplication by Arbitrary
    Precision Constants, IEEE Transactions on Computers 57(2), 2008.
    """
    if x.dtype == F64:
        return x / divisor
    high, low = reciprocal_parts(divisor)
    return t.call("fma", x, t.const(high, x.dtype), x * low)


def _quotient_ref(x: Any, divisor: float, rounding: str) -> Any:
    return x / divisor if x.dtype.kind == "f" else div_reference(x, x.dtype.type(divisor), rounding)


define(
    Row(
        "div_constant",
        "x / divisor; of floats, 1 / divisor is a normal f32 and divisor no power of two; of integers, divisor is "
        "positive and below 2**24, and they round as in div.",
        _quotient,
        _quotient_ref,
        NUMBER,
        attrs={
            "divisor": FloatAttr("divisor"),
            "rounding": ChoiceAttr("rounding of integers", "floor", "trunc"),
        },
    )
)
