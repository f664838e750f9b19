"""The natural logarithm of f64 as a pair of f64, for log, log1p and pow."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._double_double import Pair, exact_mul, fast_two_sum, two_sum
from ._polynomial import horner

LN2_HIGH = 0.6931471803691238  # 33 bits: times any exponent, exact
LN2_LOW = 1.9082149292705877e-10
_THIRD = (0.6666666666666666, 3.700743415417188e-17)  # 2/3
# 2 atanh(z) = 2 z + 2/3 z**3 + ...: the terms of z**5 to z**27, of which the next is below 2**-70 of the result.
_COEFFICIENTS = tuple(2 / n for n in range(5, 29, 2))
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_FIELD_OFFSET = 1024  # keeps the shifted exponent positive: some ISAs have no signed 64-bit shift


def parts(wide: VectorOps, x: Value) -> tuple[Value, Value, Value]:
    """Return (e, m, 2**-e) with x = 2**e m, e an f64 and m from sqrt(1/2) to sqrt(2), for normal positive x."""
    offset = wide.int_const((_FIELD_OFFSET << 52) - _SQRT_HALF_BITS)
    field = wide.shift_right(wide.int_add(wide.to_bits(x), offset), 52)
    exponent = wide.sub(wide.from_int(field), wide.const(float(_FIELD_OFFSET)))
    raised = wide.int_add(wide.to_bits(x), wide.int_const(_FIELD_OFFSET << 52))
    mantissa = wide.from_bits(wide.int_sub(raised, wide.shift_left(field, 52)))
    inverse = wide.int_sub(wide.int_const(1023 + _FIELD_OFFSET), field)
    return exponent, mantissa, inverse


def log_of_parts(wide: VectorOps, exponent: Value, f: Pair) -> Pair:
    """Return exponent ln 2 + log(1 + f) as a pair, relative error < 2**-63, for 1 + f from sqrt(1/2) to sqrt(2).

    Method: log(1 + f) = 2 atanh(z) for z = f / (2 + f): two terms of its series in pairs, the others in f64.
    """
    z, z_low = _ratio(wide, f)
    square, square_low = exact_mul(wide, z, z)
    square_low = wide.add(square_low, wide.mul(wide.add(z, z), z_low))
    cube, cube_low = exact_mul(wide, square, z)
    cube_low = wide.add(cube_low, wide.add(wide.mul(square_low, z), wide.mul(square, z_low)))
    third, third_low = exact_mul(wide, cube, wide.const(_THIRD[0]))
    third_low = wide.add(third_low, wide.mul(cube_low, wide.const(_THIRD[0])))
    third_low = wide.add(third_low, wide.mul(cube, wide.const(_THIRD[1])))
    rest = wide.mul(wide.mul(cube, square), horner(wide, square, _COEFFICIENTS))
    high, low = fast_two_sum(wide, wide.add(z, z), third)
    low = wide.add(low, wide.add(wide.add(third_low, rest), wide.add(z_low, z_low)))
    total, error = two_sum(wide, wide.mul(exponent, wide.const(LN2_HIGH)), high)
    multiple, multiple_low = exact_mul(wide, exponent, wide.const(LN2_LOW))
    low_sum, low_error = two_sum(wide, multiple, low)
    error = wide.add(wide.add(error, low_sum), wide.add(low_error, multiple_low))
    return fast_two_sum(wide, total, error)


def rounded_log_of_parts(wide: VectorOps, exponent: Value, f: Pair) -> Value:
    """Return the same as one f64, error <= 0.52 ULP: only the first term of the series is a pair."""
    z, z_low = _ratio(wide, f)
    square = wide.mul(z, z)
    series = horner(wide, square, (_THIRD[0], *_COEFFICIENTS))
    rest = wide.fma(wide.mul(z, square), series, wide.add(z_low, z_low))
    total, error = two_sum(wide, wide.mul(exponent, wide.const(LN2_HIGH)), wide.add(z, z))
    low = wide.fma(exponent, wide.const(LN2_LOW), rest)
    return wide.add(total, wide.add(error, low))


def _ratio(wide: VectorOps, f: Pair) -> Pair:
    """Return f / (2 + f)."""
    high, low = two_sum(wide, wide.const(2.0), f[0])
    inverse = wide.div(wide.const(1.0), high)
    quotient = wide.mul(f[0], inverse)
    multiple, error = exact_mul(wide, quotient, high)
    rest = wide.sub(wide.sub(f[0], multiple), error)
    rest = wide.add(wide.sub(rest, wide.mul(quotient, wide.add(low, f[1]))), f[1])
    return fast_two_sum(wide, quotient, wide.mul(rest, inverse))
