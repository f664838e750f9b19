"""e ** x."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._polynomial import horner

# Relative minimax fit of e**r on |r| <= ln(2) / 2, the first two terms held at 1, so that exp(0) == 1.
_COEFFICIENTS = (
    1.0,
    1.0,
    0.4999999403953552,
    0.1666652113199234,
    0.04166828840970993,
    0.008368703536689281,
    0.0013818938750773668,
)
_LOG2_E = 1 / math.log(2)
_LN2_HIGH = 0.693145751953125  # 15 bits: times any n here, exact
_LN2_LOW = math.log(2) - _LN2_HIGH
_LOWEST = -104.0  # e**x rounds to 0 from here down
_HIGHEST = 89.0  # overflows from below here up
# Adding it rounds to an integer that stands in the low mantissa bits, raised by two exponent biases.
_ROUND = 1.5 * 2.0**23 + 254


def exp(ops: VectorOps, x: Value) -> Value:
    """e ** x for every f32, error <= 1.2 ULP; denormal results are rounded, not flushed.

    Method: x = n ln 2 + r with n integer and |r| <= ln(2) / 2, reduced with ln 2 in two parts; a polynomial of degree 6
    gives e**r; 2**n is multiplied in as two powers of two, each normal, which handles overflow, underflow and NaN
    without a test. 18 instructions with FMA, 13 with an instruction that multiplies by 2**n; both give the same bits.
    Coefficients: iteratively reweighted least squares on 600 Chebyshev nodes until the error equioscillates, each
    coefficient rounded to f32 in turn, lowest first, and the others fitted again.
    """
    x = ops.max(ops.const(_LOWEST), ops.min(ops.const(_HIGHEST), x))
    shifted = ops.fma(x, ops.const(_LOG2_E), ops.const(_ROUND))
    n = ops.sub(shifted, ops.const(_ROUND))
    r = ops.fma(n, ops.const(-_LN2_HIGH), x)
    r = ops.fma(n, ops.const(-_LN2_LOW), r)
    fraction = horner(ops, r, _COEFFICIENTS)
    if ops.has_scalef:
        return ops.scalef(fraction, n)
    both = ops.to_bits(shifted)
    half = ops.shift_right(both, 1)
    rest = ops.int_sub(both, half)
    scaled = ops.mul(fraction, ops.from_bits(ops.shift_left(half, 23)))
    return ops.mul(scaled, ops.from_bits(ops.shift_left(rest, 23)))
