"""e ** x of f64 as a power of two and a pair of f64, for expm1, pow and the hyperbolic functions."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._double_double import Pair, exact_mul, fast_two_sum, two_sum
from ._polynomial import horner

_LOG2_E = 1 / math.log(2)
_LN2_HIGH = 0.6931471803691238  # 33 bits: times any n here, exact
_LN2_LOW = 1.9082149292705877e-10
_LN2_LOWEST = 1.6465949582897082e-20
# (e**r - 1 - r - r**2 / 2) / r**3: Taylor's, the next term is below 2**-62 of e**r for |r| <= ln(2) / 2.
_COEFFICIENTS = tuple(1 / math.factorial(n) for n in range(3, 16))
# Adding it rounds to an integer that stands in the low mantissa bits, raised by two exponent biases.
_ROUND = 1.5 * 2.0**52 + 2046


def exponential_parts(wide: VectorOps, x: Pair) -> tuple[tuple[Value, Value], Pair]:
    """Return ((2**a, 2**b), e**r - 1) with x = (a + b) ln 2 + r; the pair has an error < 2**-60. |x| is at most 745."""
    shifted = wide.fma(x[0], wide.const(_LOG2_E), wide.const(_ROUND))
    n = wide.sub(shifted, wide.const(_ROUND))
    both = wide.to_bits(shifted)
    half = wide.shift_right(both, 1)
    powers = [
        wide.from_bits(wide.shift_left(part, 52)) for part in (half, wide.int_sub(both, half))
    ]
    high = wide.sub(x[0], wide.mul(n, wide.const(_LN2_HIGH)))
    multiple, error = exact_mul(wide, n, wide.const(_LN2_LOW))
    r, low = two_sum(wide, high, wide.neg(multiple))
    low = wide.sub(low, wide.add(error, wide.mul(n, wide.const(_LN2_LOWEST))))
    r, low = fast_two_sum(wide, r, wide.add(low, x[1]))
    square, square_low = exact_mul(wide, r, r)
    square_low = wide.add(square_low, wide.mul(wide.add(r, r), low))
    half_square, half_low = (wide.mul(v, wide.const(0.5)) for v in (square, square_low))
    rest = wide.mul(wide.mul(square, r), horner(wide, r, _COEFFICIENTS))
    total, error = two_sum(wide, r, half_square)
    error = wide.add(error, wide.add(low, wide.add(half_low, rest)))
    return (powers[0], powers[1]), fast_two_sum(wide, total, error)


def exponential_pair(wide: VectorOps, x: Pair) -> Value:
    """Return e ** x for a pair, rounded twice where it is denormal."""
    (first, second), (p, low) = exponential_parts(wide, x)
    total, error = two_sum(wide, wide.const(1.0), p)
    value = wide.add(total, wide.add(error, low))
    return wide.mul(wide.mul(value, first), second)


def quarter_expm1(wide: VectorOps, x: Value) -> Pair:
    """Return (e ** x - 1) / 4 as a pair, which is finite up to the x where the hyperbolic sine overflows."""
    (first, second), (p, low) = exponential_parts(wide, (x, wide.const(0.0)))
    second = wide.mul(second, wide.const(0.25))
    power = wide.mul(first, second)
    scaled, scaled_low = (wide.mul(wide.mul(v, first), second) for v in (p, low))
    one, one_low = two_sum(wide, power, wide.const(-0.25))
    total, error = two_sum(wide, one, scaled)
    return fast_two_sum(wide, total, wide.add(error, wide.add(one_low, scaled_low)))
