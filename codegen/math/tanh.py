"""Hyperbolic tangent."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._exponential import exp_beyond_one

_SATURATED = 9.1  # tanh rounds to 1 from here up
_LN2 = math.log(2)
# Adding it rounds to an integer that stands in the low mantissa bits, raised by the exponent bias.
_ROUND = 1.5 * 2.0**23 + 127


def tanh(ops: VectorOps, x: Value) -> Value:
    """Hyperbolic tangent of every f32, error <= 2 ULP; odd, +-1 at the infinities.

    Method: (1 - e) / (1 + e) for e = e**(-2 |x|), each side 2**n (e**r - 1) + (2**n -+ 1), rounded once: the error of
    the numerator is relative to it, however small. n >= -26 in the reduction -2 |x| = n ln 2 + r, and the effect of an
    error there shrinks as |x| grows: ln 2 in one part is enough. 20 instructions with FMA.
    """
    a = ops.min(ops.const(_SATURATED), ops.abs(x))
    shifted = ops.fma(a, ops.const(-2 / _LN2), ops.const(_ROUND))
    n = ops.sub(shifted, ops.const(_ROUND))
    r = ops.fma(n, ops.const(-_LN2), ops.neg(ops.add(a, a)))
    power = ops.from_bits(ops.shift_left(ops.to_bits(shifted), 23))
    beyond = exp_beyond_one(ops, r)
    below = ops.fma(ops.neg(beyond), power, ops.sub(ops.const(1.0), power))
    above = ops.fma(beyond, power, ops.add(ops.const(1.0), power))
    sign = ops.int_and(ops.to_bits(x), ops.int_const(-(2**31)))
    return ops.from_bits(ops.int_or(ops.to_bits(ops.div(below, above)), sign))
