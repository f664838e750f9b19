"""e ** x in f64."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._polynomial import horner

# n is -2046, of which both factors are 0: a multiplication that underflows takes 150 cycles.
_ZERO_FACTORS = -1418.0
_HIGHEST = 710.0  # overflows from below here up
# Taylor's: the next term is below 2**-57 of e**r for |r| <= ln(2) / 2.
_COEFFICIENTS = tuple(1 / math.factorial(n) for n in range(14))
_LOG2_E = 1 / math.log(2)
_LN2_HIGH = 0.6931471803691238  # 33 bits: times any n here, exact
_LN2_LOW = 1.9082149292705877e-10
# Adding it rounds to an integer that stands in the low mantissa bits, raised by two exponent biases.
_ROUND = 1.5 * 2.0**52 + 2046


def exp_f64(wide: VectorOps, x: Value) -> Value:
    """e ** x for every f64, error <= 1 ULP (1.2 without FMA); denormal results are rounded, not flushed.

    Method: as that of f32 (`exp`): x = n ln 2 + r, a polynomial of degree 13 for e**r, and 2**n in two normal factors.
    """
    x = wide.max(wide.const(_ZERO_FACTORS), wide.min(wide.const(_HIGHEST), x))
    shifted = wide.fma(x, wide.const(_LOG2_E), wide.const(_ROUND))
    n = wide.sub(shifted, wide.const(_ROUND))
    r = wide.fma(n, wide.const(-_LN2_LOW), wide.fma(n, wide.const(-_LN2_HIGH), x))
    both = wide.to_bits(shifted)
    half = wide.shift_right(both, 1)
    factors = (
        wide.from_bits(wide.shift_left(part, 52)) for part in (half, wide.int_sub(both, half))
    )
    value = horner(wide, r, _COEFFICIENTS)
    for factor in factors:
        value = wide.mul(value, factor)
    return value
