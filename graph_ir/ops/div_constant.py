"""Division by a constant, created by the pass `divide_by_constants`."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import F64
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.attributes import FloatAttr
from .elementwise import FLOAT, Row, define


def reciprocal_parts(divisor: float) -> tuple[float, float]:
    """1 / divisor as the sum of two f32 of one sign, the first rounded toward zero."""
    reciprocal = 1.0 / divisor
    high = np.float32(reciprocal)
    if abs(float(high)) > abs(reciprocal):
        high = np.nextafter(high, np.float32(0))
    return float(high), float(np.float32(reciprocal - float(high)))


def _quotient(x: Expr, divisor: float) -> Expr:
    """x / divisor as a multiplication and a fused multiply-add, in at most a quarter of the time of a division.

    The two parts hold 48 bits of the reciprocal, so the quotient is correctly rounded unless it is within 2**-22 ULP of
    the midpoint of two floats: error <= 0.500001 ULP, or <= 1 where it is below 2**-102. Both parts have the divisor's
    sign, so infinity stays infinity. After Brisebarre and Muller, Correctly Rounded Multiplication by Arbitrary
    Precision Constants, IEEE Transactions on Computers 57(2), 2008.
    """
    if x.dtype == F64:
        return t.div(x, divisor)
    high, low = reciprocal_parts(divisor)
    return t.call("fma", x, t.const(high, x.dtype), t.mul(x, low))


DIV_CONSTANT = define(
    Row(
        "div_constant",
        "x / divisor; 1 / divisor is a normal f32 and divisor no power of two.",
        _quotient,
        lambda x, divisor: x / divisor,
        FLOAT,
        attrs={"divisor": FloatAttr("what is divided by")},
    )
)
