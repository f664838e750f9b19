"""Cosine."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._quarter_turns import is_odd, negate_where_bit, sin_cos


def cos(ops: VectorOps, x: Value) -> Value:
    """Cosine of an angle in radians for every f32, error <= 0.8 ULP; even, NaN at the infinities.

    Method: reduction to a quarter turn and both polynomials in f64 (_quarter_turns.py); cos(k pi/2 + r) is the sine
    one quadrant further.
    """
    wide = ops.wide
    sine, cosine, quadrant = sin_cos(ops, x)
    quadrant = wide.int_add(quadrant, wide.int_const(1))
    picked = wide.select(is_odd(wide, quadrant), cosine, sine)
    return ops.narrow(negate_where_bit(wide, quadrant, 1, picked))
