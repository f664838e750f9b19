"""Sine, cosine and tangent in f64."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._double_double import Pair, exact_mul, fast_two_sum, two_sum
from ._polynomial import horner
from ._quarter_turns_f64 import quarter_turns

# Taylor's series on |r| <= pi / 4, the next terms are below 2**-60 of the result.
_SINE = tuple((-1) ** n / math.factorial(2 * n + 1) for n in range(1, 11))
_COSINE = tuple((-1) ** n / math.factorial(2 * n) for n in range(2, 11))


def sin_f64(wide: VectorOps, x: Value) -> Value:
    """Sine of every f64, error <= 0.7 ULP; NaN of infinities, zeros keep their sign."""
    turns, r = quarter_turns(wide, x)
    return _guarded(wide, x, _wave(wide, turns, r), keeps_sign=True)


def cos_f64(wide: VectorOps, x: Value) -> Value:
    """Cosine of every f64, error <= 0.7 ULP; NaN of infinities."""
    turns, r = quarter_turns(wide, x)
    turns = wide.int_and(wide.int_add(turns, wide.int_const(1)), wide.int_const(3))
    return _guarded(wide, x, _wave(wide, turns, r), keeps_sign=False)


def tan_f64(wide: VectorOps, x: Value) -> Value:
    """Tangent of every f64, error <= 0.8 ULP; NaN of infinities, zeros keep their sign."""
    turns, r = quarter_turns(wide, x)
    sine, cosine = _sine(wide, r), _cosine(wide, r)
    is_odd = _has_bit(wide, turns, 1)
    above = [wide.select(is_odd, wide.neg(c), s) for s, c in zip(sine, cosine, strict=True)]
    below = [wide.select(is_odd, s, c) for s, c in zip(sine, cosine, strict=True)]
    quotient = wide.div(above[0], below[0])
    multiple, error = exact_mul(wide, quotient, below[0])
    rest = wide.sub(wide.sub(wide.sub(above[0], multiple), error), wide.mul(quotient, below[1]))
    result = wide.add(quotient, wide.div(wide.add(rest, above[1]), below[0]))
    return _guarded(wide, x, result, keeps_sign=True)


def _wave(wide: VectorOps, turns: Value, r: Pair) -> Value:
    """The sine of an angle of `turns` quarters and r."""
    sine, cosine = _sine(wide, r), _cosine(wide, r)
    is_odd = _has_bit(wide, turns, 1)
    value = wide.select(is_odd, wide.add(*cosine), wide.add(*sine))
    return wide.select(_has_bit(wide, turns, 2), wide.neg(value), value)


def _sine(wide: VectorOps, r: Pair) -> Pair:
    square = wide.mul(r[0], r[0])
    cube = wide.mul(wide.mul(r[0], square), horner(wide, square, _SINE))
    low = wide.sub(r[1], wide.mul(wide.mul(square, wide.const(0.5)), r[1]))
    return fast_two_sum(wide, r[0], wide.add(cube, low))


def _cosine(wide: VectorOps, r: Pair) -> Pair:
    square, error = exact_mul(wide, r[0], r[0])
    half = wide.mul(square, wide.const(0.5))
    total, low = two_sum(wide, wide.const(1.0), wide.neg(half))
    rest = wide.mul(wide.mul(square, square), horner(wide, square, _COSINE))
    low = wide.sub(low, wide.add(wide.mul(error, wide.const(0.5)), wide.mul(r[0], r[1])))
    return fast_two_sum(wide, total, wide.add(low, rest))


def _has_bit(wide: VectorOps, turns: Value, bit: int) -> Value:
    return wide.int_compare("ne", wide.int_and(turns, wide.int_const(bit)), wide.int_const(0))


def _guarded(wide: VectorOps, x: Value, result: Value, keeps_sign: bool) -> Value:
    """NaN of infinities and NaN; x itself where it is so small that it is the result."""
    if keeps_sign:
        is_tiny = wide.compare("lt", wide.abs(x), wide.const(2.0**-60))
        result = wide.select(is_tiny, x, result)
    is_finite = wide.compare("lt", wide.abs(x), wide.const(math.inf))
    return wide.select(is_finite, result, wide.const(math.nan))
