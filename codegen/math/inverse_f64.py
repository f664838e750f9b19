"""The inverse trigonometric functions in f64."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._double_double import Pair, divided, exact_mul, fast_two_sum, two_sum
from ._polynomial import horner

# (atan(z) / z - 1) / z**2 in z**2: Taylor's, the next term is below 2**-60 for |z| <= tan(pi / 16).
_COEFFICIENTS = tuple((-1) ** n / (2 * n + 1) for n in range(1, 14))
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
_PI = (3.141592653589793, 1.2246467991473532e-16)
# Centers tan(pi / 8), 1, and their angles as pairs; between tan(pi / 16), tan(3 pi / 16) and tan(5 pi / 16).
_STEPS = (
    (0.198912367379658, 0.41421356237309503, (0.39269908169872414, 3.060132146563891e-18)),
    (0.6681786379192989, 1.0, (0.7853981633974483, 3.061616997868383e-17)),
)
_SMALLEST = 2.0**-60


def atan2_f64(wide: VectorOps, y: Value, x: Value) -> Value:
    """Angle of the point (x, y) for every pair of f64, error <= 0.6 ULP; special cases as in C99 (annex F.10.1.4)."""
    angle, low = _angle(wide, wide.abs(y), wide.abs(x))
    # Bits, since x may be -0.
    is_left = wide.int_compare("lt", wide.to_bits(x), wide.int_const(0))
    high, error = two_sum(wide, wide.const(_PI[0]), wide.neg(angle))
    left = wide.add(high, wide.add(error, wide.sub(wide.const(_PI[1]), low)))
    result = wide.select(is_left, left, wide.add(angle, low))
    result = wide.copysign(result, y)
    result = wide.select(wide.compare("eq", x, x), result, x)
    return wide.select(wide.compare("eq", y, y), result, y)


def atan_f64(wide: VectorOps, x: Value) -> Value:
    """Inverse tangent of every f64, error <= 0.6 ULP; zeros keep their sign."""
    angle, low = _angle(wide, wide.abs(x), wide.const(1.0))
    result = wide.copysign(wide.add(angle, low), x)
    return wide.select(wide.compare("eq", x, x), result, x)


def asin_f64(wide: VectorOps, x: Value) -> Value:
    """Inverse sine of every f64, error <= 0.6 ULP; NaN outside of [-1, 1]: the angle of (sqrt(1 - x**2), x)."""
    size = wide.abs(x)
    inner = wide.min(wide.const(1.0), size)
    angle, low = _angle_of_pair(wide, (inner, wide.const(0.0)), _cosine(wide, inner))
    result = wide.copysign(wide.add(angle, low), x)
    return wide.select(wide.compare("le", size, wide.const(1.0)), result, wide.const(math.nan))


def acos_f64(wide: VectorOps, x: Value) -> Value:
    """Inverse cosine of every f64, error <= 0.6 ULP; NaN outside of [-1, 1]: the angle of (x, sqrt(1 - x**2))."""
    size = wide.abs(x)
    inner = wide.min(wide.const(1.0), size)
    angle, low = _angle_of_pair(wide, _cosine(wide, inner), (inner, wide.const(0.0)))
    high, error = two_sum(wide, wide.const(_PI[0]), wide.neg(angle))
    left = wide.add(high, wide.add(error, wide.sub(wide.const(_PI[1]), low)))
    is_left = wide.compare("lt", x, wide.const(0.0))
    result = wide.select(is_left, left, wide.add(angle, low))
    return wide.select(wide.compare("le", size, wide.const(1.0)), result, wide.const(math.nan))


def _cosine(wide: VectorOps, x: Value) -> Pair:
    """sqrt(1 - x**2) for x from 0 to 1, as a pair."""
    square, error = exact_mul(wide, x, x)
    high, low = two_sum(wide, wide.const(1.0), wide.neg(square))
    high, low = fast_two_sum(wide, high, wide.sub(low, error))
    root = wide.sqrt(high)
    again, error = exact_mul(wide, root, root)
    rest = wide.add(wide.sub(wide.sub(high, again), error), low)
    is_zero = wide.compare("eq", root, wide.const(0.0))
    below = wide.select(is_zero, wide.const(1.0), wide.add(root, root))
    return fast_two_sum(wide, root, wide.div(rest, below))


def _angle(wide: VectorOps, y: Value, x: Value) -> Pair:
    """The angle of (x, y) for y and x >= 0, scaled so that no intermediate result overflows or is denormal."""
    largest = wide.max(y, x)
    down = wide.compare("gt", largest, wide.const(2.0**900))
    up = wide.compare("lt", largest, wide.const(2.0**-900))
    scale = wide.select(
        down, wide.const(2.0**-120), wide.select(up, wide.const(2.0**120), wide.const(1.0))
    )
    infinite = wide.mask_and(
        wide.compare("eq", y, wide.const(math.inf)), wide.compare("eq", x, wide.const(math.inf))
    )
    one = wide.const(1.0)
    y, x = (wide.select(infinite, one, wide.mul(v, scale)) for v in (y, x))
    zero = wide.const(0.0)
    return _angle_of_pair(wide, (y, zero), (x, zero))


def _angle_of_pair(wide: VectorOps, y: Pair, x: Pair) -> Pair:
    """The angle of (x, y) for pairs >= 0 of moderate size.

    Method: the angle of the smaller over the larger, less that of a center near it; a polynomial of the difference.
    """
    is_steep = wide.compare("gt", y[0], x[0])
    small = tuple(wide.select(is_steep, a, b) for a, b in zip(x, y, strict=True))
    large = tuple(wide.select(is_steep, a, b) for a, b in zip(y, x, strict=True))
    is_origin = wide.compare("eq", large[0], wide.const(0.0))
    large = (wide.select(is_origin, wide.const(1.0), large[0]), large[1])
    # An infinite larger one: the quotient is 0.
    is_infinite = wide.compare("eq", large[0], wide.const(math.inf))
    large = (wide.select(is_infinite, wide.const(1.0), large[0]), large[1])
    small = tuple(wide.select(is_infinite, wide.const(0.0), v) for v in small)
    quotient = wide.div(small[0], large[0])
    center, base, base_low = (wide.const(0.0) for _ in range(3))
    for bound, value, angle in _STEPS:
        above = wide.compare("gt", quotient, wide.const(bound))
        center = wide.select(above, wide.const(value), center)
        base = wide.select(above, wide.const(angle[0]), base)
        base_low = wide.select(above, wide.const(angle[1]), base_low)
    z, z_low = _difference(wide, small, large, center)
    # Its low part would be denormal where an operand is, and inexact; the quotient is the result then.
    is_tiny = wide.compare("lt", quotient, wide.const(2.0**-40))
    z, z_low = wide.select(is_tiny, quotient, z), wide.select(is_tiny, wide.const(0.0), z_low)
    square = wide.mul(z, z)
    rest = wide.add(z_low, wide.mul(wide.mul(z, square), horner(wide, square, _COEFFICIENTS)))
    total, error = two_sum(wide, base, z)
    low = wide.add(wide.add(error, base_low), rest)
    high, error = two_sum(wide, wide.const(_HALF_PI[0]), wide.neg(total))
    low_steep = wide.add(error, wide.sub(wide.const(_HALF_PI[1]), low))
    high, low = wide.select(is_steep, high, total), wide.select(is_steep, low_steep, low)
    return fast_two_sum(wide, high, low)


def _difference(wide: VectorOps, y: Pair, x: Pair, center: Value) -> Pair:
    """(y - center x) / (x + center y): the tangent of the angle less that of the center."""
    above = _minus(wide, y, _times(wide, x, center))
    multiple = _times(wide, y, center)
    below = _minus(wide, x, (wide.neg(multiple[0]), wide.neg(multiple[1])))
    quotient, rest = divided(wide, above[0], below)
    return fast_two_sum(wide, quotient, wide.add(rest, wide.div(above[1], below[0])))


def _times(wide: VectorOps, a: Pair, b: Value) -> Pair:
    high, low = exact_mul(wide, a[0], b)
    return high, wide.add(low, wide.mul(a[1], b))


def _minus(wide: VectorOps, a: Pair, b: Pair) -> Pair:
    high, low = two_sum(wide, a[0], wide.neg(b[0]))
    return fast_two_sum(wide, high, wide.add(low, wide.sub(a[1], b[1])))
