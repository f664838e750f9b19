"""The sigmoid of what was reduced to 2**n and a fraction: the final steps shared by sigmoid, silu and gelu_tanh."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._exponential import LN2_HIGH, LN2_LOW, LOG2_E

SCALE = 2.0**-64
"""Factor by which numerators and denominators are scaled down: nothing overflows, and the division rounds a result that
is too small for a normal f32 once."""
# Adding it rounds to an integer n that stands in the low mantissa bits; shifted up, they are those of 2**(n - 64).
SCALED_ROUND = 1.5 * 2.0**23 + 127 - 64


def scaled_power(ops: VectorOps, shifted: Value) -> Value:
    """2**n * SCALE for -30 <= n <= 191, infinity for 192; `shifted` is n + SCALED_ROUND."""
    return ops.from_bits(ops.shift_left(ops.to_bits(shifted), 23))


def reduce_negated(ops: VectorOps, x: Value) -> tuple[Value, Value]:
    """(r, n + SCALED_ROUND) with -x = n ln 2 + r, n integer and |r| <= ln(2) / 2, for -133.2 <= x <= 20."""
    shifted = ops.fma(x, ops.const(-LOG2_E), ops.const(SCALED_ROUND))
    n = ops.sub(shifted, ops.const(SCALED_ROUND))
    r = ops.fma(n, ops.const(-LN2_HIGH), ops.neg(x))
    return ops.fma(n, ops.const(-LN2_LOW), r), shifted


def gated(
    ops: VectorOps, x: Value, clamped: tuple[Value, Value], fraction: Value, shifted: Value
) -> Value:
    """X / (1 + fraction * 2**n), rounded twice, with `shifted` as in `scaled_power`; NaN at -inf, as -inf * 0 is.

    `clamped`: x raised to where x * sigmoid(x) rounds to 0, and that lowered to where the sigmoid rounds to 1, the x of
    the sigmoid. The result is the second by 1 + e, less what that x is below the first: 0 keeps -0.
    """
    raised, low = clamped
    below = nan_at_minus_infinity(ops, x, ops.sub(low, raised))
    denominator = ops.fma(fraction, scaled_power(ops, shifted), ops.const(SCALE))
    return ops.fma(ops.div(low, denominator), ops.const(SCALE), ops.neg(below))


def nan_at_minus_infinity(ops: VectorOps, x: Value, result: Value) -> Value:
    """-inf * 0, which the definition of these functions asks for; `result` elsewhere."""
    lowest = ops.compare("eq", x, ops.const(-math.inf))
    return ops.select(lowest, ops.const(math.nan), result)
