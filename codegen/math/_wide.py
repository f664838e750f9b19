"""log2 and 2**x in f64 with the accuracy an f32 result needs, for the functions that lose digits in f32."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._polynomial import horner

# log2((1 + z) / (1 - z)) = z * P(z * z), relative minimax fit for the z of sqrt(1/2) <= m < sqrt(2): 2**-45.
_LOG2_COEFFICIENTS = (
    2.8853900817778495,
    0.9617966941142957,
    0.5770779420666545,
    0.41220928465564793,
    0.3199042902104374,
    0.28292136683834934,
)
# 2**f on |f| <= 1/2, relative minimax fit: 2**-34.
_EXP2_COEFFICIENTS = (
    1.0,
    0.693147180704532,
    0.24022651066561845,
    0.0555041036599182,
    0.009618038131973051,
    0.001333393505524567,
    0.0001546675632397465,
    1.5196156015728582e-05,
)
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_FIELD_OFFSET = 1024  # keeps the shifted exponent positive: some ISAs have no signed 64-bit shift
# Adding it rounds to an integer that stands in the low mantissa bits, raised by the exponent bias.
_ROUND = 1.5 * 2.0**52 + 1023


def log2(wide: VectorOps, x: Value) -> Value:
    """Base-2 logarithm of a normal positive f64, relative error < 2**-44; the caller handles 0, inf and NaN."""
    field = _exponent_field(wide, x)
    mantissa = wide.int_sub(
        wide.int_add(wide.to_bits(x), wide.int_const(_FIELD_OFFSET << 52)),
        wide.shift_left(field, 52),
    )
    return _log2_of(wide, field, wide.sub(wide.from_bits(mantissa), wide.const(1.0)))


def log2_1p(wide: VectorOps, x: Value) -> Value:
    """log2(1 + x) for finite x > -1 in f64, relative error < 2**-44 also next to 0.

    With 1 + x = 2**e (1 + f), f is x 2**-e + (2**-e - 1), which keeps the digits that 1 + x loses.
    """
    field = _exponent_field(wide, wide.add(x, wide.const(1.0)))
    inverse_bits = wide.int_sub(
        wide.int_const((1023 + _FIELD_OFFSET) << 52), wide.shift_left(field, 52)
    )
    inverse = wide.from_bits(inverse_bits)
    return _log2_of(wide, field, wide.fma(x, inverse, wide.sub(inverse, wide.const(1.0))))


def exp2(wide: VectorOps, x: Value) -> Value:
    """2 ** x in f64 for |x| <= 1000, relative error < 2**-34; NaN stays NaN."""
    shifted = wide.add(x, wide.const(_ROUND))
    f = wide.sub(x, wide.sub(shifted, wide.const(_ROUND)))
    power = wide.from_bits(wide.shift_left(wide.to_bits(shifted), 52))
    return wide.mul(horner(wide, f, _EXP2_COEFFICIENTS), power)


def _exponent_field(wide: VectorOps, x: Value) -> Value:
    """E + _FIELD_OFFSET as an integer, where x = 2**e m and sqrt(1/2) <= m < sqrt(2)."""
    offset = wide.int_const((_FIELD_OFFSET << 52) - _SQRT_HALF_BITS)
    return wide.shift_right(wide.int_add(wide.to_bits(x), offset), 52)


def _log2_of(wide: VectorOps, field: Value, f: Value) -> Value:
    """e + log2(1 + f)."""
    z = wide.div(f, wide.add(f, wide.const(2.0)))
    exponent = wide.sub(wide.from_int(field), wide.const(float(_FIELD_OFFSET)))
    return wide.fma(z, horner(wide, wide.mul(z, z), _LOG2_COEFFICIENTS), exponent)
