"""e ** x - 1."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._polynomial import horner

# (e**r - 1 - r) / r**2 on |r| <= ln(2) / 2, minimax fit of the error relative to e**r - 1.
_COEFFICIENTS = (
    0.4999999701976776,
    0.1666654497385025,
    0.04166746512055397,
    0.008366423659026623,
    0.0013868313981220126,
)
_LOG2_E = 1 / math.log(2)
_LN2_HIGH = 0.693145751953125  # 15 bits: times any n here, exact
_LN2_LOW = math.log(2) - _LN2_HIGH
_LOWEST = -18.0  # rounds to -1 from above here down
_HIGHEST = 89.0  # overflows from below here up
# Adding it rounds to an integer n that stands in the low mantissa bits as n - 1, raised by the exponent bias.
_ROUND = 1.5 * 2.0**23 + 126


def expm1(ops: VectorOps, x: Value) -> Value:
    """e ** x - 1 for every f32, error <= 1.7 ULP; -1 at -inf, zeros keep their sign.

    Method: x = n ln 2 + r; 2 (2**(n-1) p + (2**(n-1) - 1/2)) with p = e**r - 1 from a polynomial, half of the power
    since 2**128 overflows f32; p itself where n = 0, so that denormals keep their digits. Coefficients: iteratively
    reweighted least squares on Chebyshev nodes, rounded to f32 one after the other.
    """
    bounded = ops.max(ops.const(_LOWEST), ops.min(ops.const(_HIGHEST), x))
    shifted = ops.fma(bounded, ops.const(_LOG2_E), ops.const(_ROUND))
    n = ops.sub(shifted, ops.const(_ROUND))
    r = ops.fma(n, ops.const(-_LN2_HIGH), bounded)
    r = ops.fma(n, ops.const(-_LN2_LOW), r)
    p = ops.fma(ops.mul(r, r), horner(ops, r, _COEFFICIENTS), r)
    power = ops.from_bits(ops.shift_left(ops.to_bits(shifted), 23))
    half = ops.fma(p, power, ops.sub(power, ops.const(0.5)))
    result = ops.select(ops.compare("eq", n, ops.const(0.0)), p, ops.add(half, half))
    return ops.copysign(result, x)
