"""Arc tangent."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._polynomial import horner

# atan(t) / t = 1 + s * P(s), s = t * t, relative minimax fit for 0 <= t <= 1.
_COEFFICIENTS = (
    -0.33333298563957214,
    0.1999852955341339,
    -0.14264015853405,
    0.10950880497694016,
    -0.08399306237697601,
    0.05788138136267662,
    -0.031096961349248886,
    0.010868660174310207,
    -0.00178281229455024,
)
_HALF_PI_HIGH = 1.57079637050628662109375
_HALF_PI_LOW = math.pi / 2 - _HALF_PI_HIGH


def atan(ops: VectorOps, x: Value) -> Value:
    """Arc tangent in radians for every f32, error <= 1.6 ULP; odd, +-pi/2 at the infinities.

    Method: an odd polynomial for |x| <= 1, pi/2 - atan(1 / |x|) beyond.
    Coefficients: iteratively reweighted least squares on Chebyshev nodes, rounded to f32 one after the other.
    """
    a = ops.abs(x)
    beyond = ops.compare("gt", a, ops.const(1.0))
    t = ops.select(beyond, ops.div(ops.const(-1.0), a), a)
    square = ops.mul(t, t)
    angle = ops.fma(ops.mul(square, horner(ops, square, _COEFFICIENTS)), t, t)
    complement = ops.add(ops.add(angle, ops.const(_HALF_PI_LOW)), ops.const(_HALF_PI_HIGH))
    angle = ops.select(beyond, complement, angle)
    return ops.copysign(angle, x)
