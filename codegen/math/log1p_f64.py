"""log(1 + x) and the inverse hyperbolic functions in f64."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._double_double import Pair, divided, exact_mul, fast_two_sum, two_sum
from ._logarithm_f64 import log_of_parts, parts

_LARGE = 2.0**30
_SMALL = 2.0**-60


def log1p_f64(wide: VectorOps, x: Value) -> Value:
    """log(1 + x) for every f64, error <= 0.51 ULP; -inf at -1, NaN below, zeros keep their sign."""
    result, _ = log1p_pair(wide, (x, wide.const(0.0)))
    result = wide.select(wide.compare("lt", wide.abs(x), wide.const(_SMALL)), x, result)
    result = wide.select(wide.compare("lt", x, wide.const(math.inf)), result, x)
    result = wide.select(wide.compare("lt", x, wide.const(-1.0)), wide.const(math.nan), result)
    return wide.select(wide.compare("eq", x, wide.const(-1.0)), wide.const(-math.inf), result)


def log1p_pair(wide: VectorOps, a: Pair) -> Pair:
    """Return log(1 + a) as a pair, for finite a > -1."""
    high, low = two_sum(wide, wide.const(1.0), a[0])
    high, low = fast_two_sum(wide, high, wide.add(low, a[1]))
    exponent, mantissa, inverse = parts(wide, high)
    # 0 for the largest numbers, beside which the low part is nothing.
    scale = wide.from_bits(wide.shift_left(inverse, 52))
    f = two_sum(wide, wide.sub(mantissa, wide.const(1.0)), wide.mul(low, scale))
    return log_of_parts(wide, exponent, f)


def asinh_f64(wide: VectorOps, x: Value) -> Value:
    """Inverse hyperbolic sine of every f64, error <= 0.6 ULP: log1p(|x| + x**2 / (1 + sqrt(1 + x**2)))."""
    size = wide.abs(x)
    small = wide.min(wide.const(_LARGE), size)
    square = exact_mul(wide, small, small)
    root = _root(wide, _plus(wide, (wide.const(1.0), wide.const(0.0)), square))
    below = _plus(wide, root, (wide.const(1.0), wide.const(0.0)))
    quotient, rest = divided(wide, square[0], below)
    part = fast_two_sum(wide, quotient, wide.add(rest, wide.div(square[1], below[0])))
    result, _ = log1p_pair(wide, _plus(wide, (small, wide.const(0.0)), part))
    result = _large(wide, size, result)
    return wide.copysign(wide.select(wide.compare("lt", size, wide.const(_SMALL)), size, result), x)


def acosh_f64(wide: VectorOps, x: Value) -> Value:
    """Inverse hyperbolic cosine of every f64, error <= 0.6 ULP: log1p(t + sqrt(2 t + t**2)) with t = x - 1."""
    t = wide.sub(wide.min(wide.const(_LARGE), wide.max(wide.const(1.0), x)), wide.const(1.0))
    square = exact_mul(wide, t, t)
    root = _root(wide, _plus(wide, (wide.add(t, t), wide.const(0.0)), square))
    result, _ = log1p_pair(wide, _plus(wide, (t, wide.const(0.0)), root))
    result = _large(wide, x, result)
    return wide.select(wide.compare("ge", x, wide.const(1.0)), result, wide.const(math.nan))


def atanh_f64(wide: VectorOps, x: Value) -> Value:
    """Inverse hyperbolic tangent of every f64, error <= 0.6 ULP: log1p(2 |x| / (1 - |x|)) / 2."""
    size = wide.abs(x)
    inner = wide.min(wide.const(1.0 - 2.0**-53), size)
    below = two_sum(wide, wide.const(1.0), wide.neg(inner))
    twice = divided(wide, wide.add(inner, inner), below)
    result, _ = log1p_pair(wide, twice)
    result = wide.mul(result, wide.const(0.5))
    result = wide.select(wide.compare("lt", size, wide.const(_SMALL)), size, result)
    result = wide.select(wide.compare("eq", size, wide.const(1.0)), wide.const(math.inf), result)
    result = wide.select(wide.compare("le", size, wide.const(1.0)), result, wide.const(math.nan))
    return wide.copysign(result, x)


def _plus(wide: VectorOps, a: Pair, b: Pair) -> Pair:
    high, low = two_sum(wide, a[0], b[0])
    return fast_two_sum(wide, high, wide.add(low, wide.add(a[1], b[1])))


def _root(wide: VectorOps, a: Pair) -> Pair:
    """The square root, 0 of 0."""
    root = wide.sqrt(a[0])
    square, error = exact_mul(wide, root, root)
    rest = wide.add(wide.sub(wide.sub(a[0], square), error), a[1])
    below = wide.select(wide.compare("eq", root, wide.const(0.0)), wide.const(1.0), root)
    return fast_two_sum(wide, root, wide.div(wide.mul(rest, wide.const(0.5)), below))


def _large(wide: VectorOps, x: Value, result: Value) -> Value:
    """log(2 x) for large x, where the squares above are infinite; NaN and infinity pass."""
    is_large = wide.compare("gt", x, wide.const(_LARGE))
    exponent, mantissa, _ = parts(wide, x)
    zero = wide.const(0.0)
    f = (wide.sub(mantissa, wide.const(1.0)), zero)
    value, _ = log_of_parts(wide, wide.add(exponent, wide.const(1.0)), f)
    value = wide.select(wide.compare("lt", x, wide.const(math.inf)), value, x)
    result = wide.select(is_large, value, result)
    return wide.select(wide.compare("eq", x, x), result, x)
