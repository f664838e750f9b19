"""e ** x - 1 and the hyperbolic functions in f64."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._double_double import divided, two_sum
from ._exponential_f64 import quarter_expm1

_LOWEST, _HIGHEST = -745.0, 710.48  # where e ** x is 0, and the hyperbolic sine is infinite
_LARGE = 2.0**60  # beside which 1 is nothing
_ONE_FROM = 22.0  # tanh rounds to 1 from here up


def expm1_f64(wide: VectorOps, x: Value) -> Value:
    """e ** x - 1 for every f64, error <= 0.65 ULP; -1 at -inf, zeros keep their sign."""
    quarter, low = quarter_expm1(wide, _bounded(wide, x))
    result = wide.mul(wide.const(4.0), wide.add(quarter, low))
    return wide.copysign(_small_as_given(wide, x, result), x)


def sinh_f64(wide: VectorOps, x: Value) -> Value:
    """Hyperbolic sine of every f64, error <= 0.65 ULP: (E + E / (E + 1)) / 2 with E = e ** |x| - 1."""
    quarter, low = quarter_expm1(wide, _bounded(wide, wide.abs(x)))
    is_large = wide.compare("gt", quarter, wide.const(_LARGE))
    small = wide.select(is_large, wide.const(0.0), quarter)
    small_low = wide.select(is_large, wide.const(0.0), low)
    four = wide.const(4.0)
    high, high_low = two_sum(wide, wide.const(1.0), wide.mul(four, small))
    below = (high, wide.add(high_low, wide.mul(four, small_low)))
    quotient, rest = divided(wide, small, below)
    rest = wide.add(rest, wide.div(small_low, high))
    total, error = two_sum(wide, quarter, quotient)
    result = wide.add(total, wide.add(error, wide.add(low, rest)))
    result = wide.mul(wide.const(2.0), result)
    return wide.copysign(_small_as_given(wide, x, result), x)


def cosh_f64(wide: VectorOps, x: Value) -> Value:
    """Hyperbolic cosine of every f64, error <= 0.65 ULP: 2 (c + 1 / (16 c)) with c = e ** |x| / 4."""
    quarter, below = quarter_expm1(wide, _bounded(wide, wide.abs(x)))
    c, low = two_sum(wide, quarter, wide.const(0.25))
    low = wide.add(low, below)
    inverse = wide.div(wide.const(1 / 16), c)
    total, error = two_sum(wide, c, inverse)
    low = wide.sub(low, wide.mul(wide.div(low, c), inverse))
    return wide.mul(wide.const(2.0), wide.add(total, wide.add(error, low)))


def tanh_f64(wide: VectorOps, x: Value) -> Value:
    """Hyperbolic tangent of every f64, error <= 0.6 ULP: E / (E + 2) with E = e ** (2 |x|) - 1."""
    size = wide.abs(x)
    bounded = wide.min(wide.const(_ONE_FROM), size)  # NaN passes
    quarter, below = quarter_expm1(wide, wide.add(bounded, bounded))
    high, low = two_sum(wide, wide.const(0.5), quarter)
    quotient, rest = divided(wide, quarter, (high, wide.add(low, below)))
    result = wide.add(quotient, wide.add(rest, wide.div(below, high)))
    return wide.copysign(_small_as_given(wide, x, result), x)


def _bounded(wide: VectorOps, x: Value) -> Value:
    return wide.max(wide.const(_LOWEST), wide.min(wide.const(_HIGHEST), x))


def _small_as_given(wide: VectorOps, x: Value, result: Value) -> Value:
    """The result, and |x| where that is so small that it is the result, denormals exactly."""
    size = wide.abs(x)
    return wide.select(wide.compare("lt", size, wide.const(2.0**-60)), size, wide.abs(result))
