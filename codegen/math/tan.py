"""Tangent."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._quarter_turns import is_odd, negate_where_bit, sin_cos


def tan(ops: VectorOps, x: Value) -> Value:
    """Tangent of an angle in radians for every f32, error <= 0.8 ULP; odd, NaN at the infinities.

    Method: sin(r) / cos(r) after the reduction of _quarter_turns.py, or -cos(r) / sin(r) in odd quadrants, in f64.
    """
    wide = ops.wide
    sine, cosine, quadrant = sin_cos(ops, x)
    odd = is_odd(wide, quadrant)
    over, under = wide.select(odd, cosine, sine), wide.select(odd, sine, cosine)
    return ops.narrow(negate_where_bit(wide, quadrant, 0, wide.div(over, under)))
