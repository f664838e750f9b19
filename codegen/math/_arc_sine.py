"""The polynomial and the argument halving shared by asin and acos, in f64."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._polynomial import horner

# asin(s) / s = P(s * s), relative minimax fit for 0 <= s <= 1/2.
_COEFFICIENTS = (
    1.000000000254605,
    0.16666656944717495,
    0.07500604105750833,
    0.04450308541188665,
    0.031900813245846905,
    0.014139459636409037,
    0.03788562480816732,
)


def half_or_whole_angle(wide: VectorOps, x: Value) -> tuple[Value, Value]:
    """(asin(x), false) for 0 <= x <= 1/2, (acos(x) / 2, true) for 1/2 < x <= 1; NaN beyond 1.

    asin grows too steeply next to 1 for a polynomial; acos(x) = 2 asin(sqrt((1 - x) / 2)) does not.
    """
    is_half = wide.compare("gt", x, wide.const(0.5))
    folded = wide.mul(wide.sub(wide.const(1.0), x), wide.const(0.5))
    square = wide.select(is_half, folded, wide.mul(x, x))
    s = wide.select(is_half, wide.sqrt(folded), x)
    return wide.mul(s, horner(wide, square, _COEFFICIENTS)), is_half
