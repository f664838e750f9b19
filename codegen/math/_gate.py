"""The sigmoid of what was reduced to 2**n and a fraction: the final steps shared by sigmoid, silu and gelu_tanh."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._exponential import LN2_HIGH, LN2_LOW, LOG2_E, exp_beyond_one

_SCALE = 2.0**-64
# Adding it rounds to an integer n that stands in the low mantissa bits; shifted up, they are those of 2**(n - 64).
SCALED_ROUND = 1.5 * 2.0**23 + 127 - 64
_RAISED = 2.0**40  # a sigmoid of -110 times it is a normal f32


def sigmoid_of(ops: VectorOps, r: Value, shifted: Value, times: float = 1.0) -> Value:
    """`times` / (1 + e) for e = e**r * 2**n, -30 <= n <= 160; `shifted` is n + SCALED_ROUND.

    Numerator and denominator are held 2**64 times smaller: nothing overflows, and the division rounds a result that is
    too small for a normal f32 once. The 1 is added to what e is above 2**n, not to 2**n: 2**24 + 1 would be 2**24,
    which is a unit in the last place of a smaller sum.
    """
    power = ops.from_bits(ops.shift_left(ops.to_bits(shifted), 23))
    rest = ops.fma(exp_beyond_one(ops, r), power, ops.const(_SCALE))
    return ops.div(ops.const(times * _SCALE), ops.add(power, rest))


def reduce_negated(ops: VectorOps, x: Value) -> tuple[Value, Value]:
    """(r, n + SCALED_ROUND) with -x = n ln 2 + r, n integer and |r| <= ln(2) / 2, for -110 <= x <= 20."""
    shifted = ops.fma(x, ops.const(-LOG2_E), ops.const(SCALED_ROUND))
    n = ops.sub(shifted, ops.const(SCALED_ROUND))
    r = ops.fma(n, ops.const(-LN2_HIGH), ops.neg(x))
    return ops.fma(n, ops.const(-LN2_LOW), r), shifted


def gated(ops: VectorOps, x: Value, low: Value, r: Value, shifted: Value, highest: float) -> Value:
    """X times `sigmoid_of(r, shifted)`: `low`, which is x or what it is raised to where that rounds to 0, times it; x
    itself above `highest`, where the sigmoid rounds to 1; NaN at -inf, as the product is."""
    raised = ops.mul(low, sigmoid_of(ops, r, shifted, _RAISED))
    product = ops.mul(raised, ops.const(1 / _RAISED))
    whole = ops.compare("gt", x, ops.const(highest))
    return nan_at_minus_infinity(ops, x, ops.select(whole, x, product))


def nan_at_minus_infinity(ops: VectorOps, x: Value, result: Value) -> Value:
    """-inf * 0, which the definition of these functions asks for; `result` elsewhere."""
    lowest = ops.compare("eq", x, ops.const(-math.inf))
    return ops.select(lowest, ops.const(math.nan), result)
