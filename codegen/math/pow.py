"""x ** y."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._wide import exp2, log2

# Stands for an infinite y: times any non-zero log2 it is beyond _LARGEST_EXPONENT.
_LARGEST_Y = 2.0**140
_LARGEST_EXPONENT = 200.0  # 2**+-200 narrows to infinity and to 0
_ALL_EVEN = 2.0**30  # every f32 from here up is an even integer
_UNIT = 2.0**52  # adding it to less than 2**52 leaves an integer in the mantissa


def pow(ops: VectorOps, x: Value, y: Value) -> Value:
    """x ** y for every pair of f32, error <= 0.6 ULP; special cases as in C99 (annex F.10.4.4).

    Method: 2 ** (y log2 |x|) in f64, and the sign of x where y is an odd integer.
    """
    wide = ops.wide
    x, y = ops.widen(x), ops.widen(y)
    magnitude = wide.abs(x)
    power = _power(wide, magnitude, y)

    is_integer, parity = _parity(wide, y)
    sign = wide.int_and(wide.to_bits(x), parity)
    power = wide.from_bits(wide.int_or(wide.to_bits(power), sign))

    undefined = wide.mask_and(
        wide.compare("lt", x, wide.const(0.0)), wide.compare("lt", magnitude, wide.const(math.inf))
    )
    root = wide.select(is_integer, power, wide.const(math.nan))
    power = wide.select(undefined, root, power)
    is_one = wide.mask_or(
        wide.compare("eq", x, wide.const(1.0)), wide.compare("eq", y, wide.const(0.0))
    )
    return ops.narrow(wide.select(is_one, wide.const(1.0), power))


def _power(wide: VectorOps, x: Value, y: Value) -> Value:
    """x ** y for x >= 0 but 0 ** 0."""
    logarithm = wide.select(wide.compare("lt", x, wide.const(math.inf)), log2(wide, x), x)
    logarithm = wide.select(
        wide.compare("eq", x, wide.const(0.0)), wide.const(-math.inf), logarithm
    )
    y = wide.max(wide.const(-_LARGEST_Y), wide.min(wide.const(_LARGEST_Y), y))
    exponent = wide.min(wide.const(_LARGEST_EXPONENT), wide.mul(y, logarithm))
    return exp2(wide, wide.max(wide.const(-_LARGEST_EXPONENT), exponent))


def _parity(wide: VectorOps, y: Value) -> tuple[Value, Value]:
    """(mask of the integers, sign bit set where y is an odd one)."""
    size = wide.min(wide.abs(y), wide.const(_ALL_EVEN))
    shifted = wide.add(size, wide.const(_UNIT))
    is_integer = wide.compare("eq", wide.sub(shifted, wide.const(_UNIT)), wide.abs(y))
    is_integer = wide.mask_or(is_integer, wide.compare("ge", wide.abs(y), wide.const(_ALL_EVEN)))
    last_bit = wide.shift_left(wide.to_bits(shifted), 63)
    return is_integer, wide.int_select(is_integer, last_bit, wide.int_const(0))
