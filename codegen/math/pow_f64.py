"""x ** y in f64."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._double_double import exact_mul, fast_two_sum
from ._exponential_f64 import exponential_pair
from .log_f64 import log_pair

_LARGEST_Y = 2.0**70
"""Stands for an infinite y: times any logarithm that is not 0 it is beyond `_LARGEST_EXPONENT`."""
_LARGEST_EXPONENT, _SMALLEST_EXPONENT = 710.0, -745.5
_ALL_EVEN = 2.0**53  # every f64 from here up is an even integer
_UNIT = 2.0**52  # adding it to less than 2**52 leaves an integer in the mantissa


def pow_f64(wide: VectorOps, x: Value, y: Value) -> Value:
    """x ** y for every pair of f64, error <= 0.65 ULP; special cases as in C99 (annex F.10.4.4).

    Method: e ** (y log |x|) with the logarithm and the multiplication in pairs of f64, and the sign of x where y is an
    odd integer.
    """
    size = wide.abs(x)
    power = _power(wide, size, y)
    is_integer, is_odd = _parity(wide, y)
    power = wide.select(is_odd, wide.copysign(power, x), power)
    undefined = wide.mask_and(
        wide.compare("lt", x, wide.const(0.0)), wide.compare("lt", size, wide.const(math.inf))
    )
    finite = wide.compare("lt", wide.abs(y), wide.const(math.inf))
    undefined = wide.mask_and(undefined, finite)
    root = wide.select(is_integer, power, wide.const(math.nan))
    power = wide.select(undefined, root, power)
    # NaN in either operand is the result, except for 1 ** y and x ** 0.
    power = wide.select(wide.compare("eq", x, x), power, x)
    power = wide.select(wide.compare("eq", y, y), power, y)
    is_one = wide.mask_or(
        wide.compare("eq", x, wide.const(1.0)), wide.compare("eq", y, wide.const(0.0))
    )
    minus_one = wide.mask_and(
        wide.compare("eq", size, wide.const(1.0)),
        wide.compare("eq", wide.abs(y), wide.const(math.inf)),
    )
    return wide.select(wide.mask_or(is_one, minus_one), wide.const(1.0), power)


def _power(wide: VectorOps, x: Value, y: Value) -> Value:
    """x ** y for x >= 0 but 0 ** 0, NaN aside."""
    positive = wide.max(wide.const(5e-324), wide.min(wide.const(1.7976931348623157e308), x))
    high, low = log_pair(wide, positive)
    bounded = wide.max(wide.const(-_LARGEST_Y), wide.min(wide.const(_LARGEST_Y), y))
    multiple, error = exact_mul(wide, bounded, high)
    error = wide.add(error, wide.mul(bounded, low))
    total, error = fast_two_sum(wide, multiple, error)
    inside = wide.max(
        wide.const(_SMALLEST_EXPONENT), wide.min(wide.const(_LARGEST_EXPONENT), total)
    )
    error = wide.select(wide.compare("eq", inside, total), error, wide.const(0.0))
    value = exponential_pair(wide, (inside, error))
    grows = wide.compare("gt", y, wide.const(0.0))
    of_zero = wide.select(grows, wide.const(0.0), wide.const(math.inf))
    of_infinity = wide.select(grows, wide.const(math.inf), wide.const(0.0))
    value = wide.select(wide.compare("eq", x, wide.const(0.0)), of_zero, value)
    return wide.select(wide.compare("eq", x, wide.const(math.inf)), of_infinity, value)


def _parity(wide: VectorOps, y: Value) -> tuple[Value, Value]:
    """(mask of the integers, mask of the odd ones)."""
    size = wide.abs(y)
    is_even = wide.compare("ge", size, wide.const(_ALL_EVEN))
    inner = wide.min(wide.const(_ALL_EVEN), size)
    whole = _truncated(wide, inner)
    is_integer = wide.mask_or(wide.compare("eq", whole, size), is_even)
    half = _truncated(wide, wide.mul(whole, wide.const(0.5)))
    twice = wide.add(half, half)
    is_odd = wide.mask_and(wide.compare("eq", whole, size), wide.compare("ne", twice, whole))
    return is_integer, is_odd


def _truncated(wide: VectorOps, x: Value) -> Value:
    """The integer at or below x, for x from 0 to 2**53."""
    nearest = wide.sub(wide.add(x, wide.const(_UNIT)), wide.const(_UNIT))
    nearest = wide.select(wide.compare("lt", x, wide.const(_UNIT)), nearest, x)
    return wide.select(wide.compare("gt", nearest, x), wide.sub(nearest, wide.const(1.0)), nearest)
