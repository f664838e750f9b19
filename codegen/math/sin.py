"""Sine."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._quarter_turns import is_odd, negate_where_bit, sin_cos


def sin(ops: VectorOps, x: Value) -> Value:
    """Sine of an angle in radians for every f32, error <= 0.8 ULP; odd, NaN at the infinities.

    Method: reduction to a quarter turn and both polynomials in f64 (_quarter_turns.py), the quadrant picks one.
    """
    wide = ops.wide
    sine, cosine, quadrant = sin_cos(ops, x)
    picked = wide.select(is_odd(wide, quadrant), cosine, sine)
    return ops.narrow(negate_where_bit(wide, quadrant, 1, picked))
