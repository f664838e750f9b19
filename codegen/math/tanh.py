"""Hyperbolic tangent."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._polynomial import horner

# tanh(x) / x = 1 + s * P(s), s = x * x, relative minimax fit for |x| < _SMALL.
_SMALL = 0.625
_SMALL_COEFFICIENTS = (
    -0.3333328068256378,
    0.13331405818462372,
    -0.05373651534318924,
    0.02062816731631756,
    -0.0056922961957752705,
)
# e**(2 r), relative minimax fit on |r| <= ln(2) / 4.
_EXP_COEFFICIENTS = (
    1.0,
    1.9999994039535522,
    1.9999656677246094,
    1.3334120512008667,
    0.6703834533691406,
    0.26526951789855957,
)
_SATURATED = 9.1  # tanh rounds to 1 from here up
_TWO_LOG2_E = 2 / math.log(2)
_HALF_LN2 = math.log(2) / 2
# Adding it rounds to an integer that stands in the low mantissa bits, raised by the exponent bias.
_ROUND = 1.5 * 2.0**23 + 127


def tanh(ops: VectorOps, x: Value) -> Value:
    """Hyperbolic tangent of every f32, error <= 1.85 ULP; odd, +-1 at the infinities.

    Method: 1 - 2 / (e**(2 a) + 1) on a = |x|, whose error is absolute, and below _SMALL an odd polynomial, chosen by
    a select. n <= 26 in the reduction 2 a = n ln 2 + 2 r, and the effect of an error there shrinks as a grows: ln 2 in
    one part is enough. 24 instructions with FMA. Coefficients: iteratively reweighted least squares on Chebyshev nodes,
    rounded to f32 one after the other.
    """
    a = ops.min(ops.const(_SATURATED), ops.abs(x))
    shifted = ops.fma(a, ops.const(_TWO_LOG2_E), ops.const(_ROUND))
    n = ops.sub(shifted, ops.const(_ROUND))
    r = ops.fma(n, ops.const(-_HALF_LN2), a)
    power = ops.from_bits(ops.shift_left(ops.to_bits(shifted), 23))
    denominator = ops.fma(horner(ops, r, _EXP_COEFFICIENTS), power, ops.const(1.0))
    large = ops.sub(ops.const(1.0), ops.div(ops.const(2.0), denominator))

    square = ops.mul(a, a)
    correction = ops.mul(square, horner(ops, square, _SMALL_COEFFICIENTS))
    small = ops.fma(correction, a, a)
    is_small = ops.compare("lt", a, ops.const(_SMALL))
    return ops.copysign(ops.select(is_small, small, large), x)
