"""x times a sigmoid of something odd in x: the final steps shared by sigmoid, silu and gelu_tanh."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._exponential import PowerOfTwo


def gated(
    ops: VectorOps, x: Value, sides: tuple[Value, Value], excess: Value, power: PowerOfTwo
) -> Value:
    """sides[0] * e / (1 + e) where x < 0, else sides[1] / (1 + e), for e = (1 + excess) * 2**n <= 1.

    The power is multiplied in last: what is too small for a normal f32 is rounded once, and e alone may well be.
    """
    negative = ops.compare("lt", x, ops.const(0.0))
    numerator = ops.select(negative, ops.fma(sides[0], excess, sides[0]), sides[1])
    e = power.times(ops.add(excess, ops.const(1.0)))
    quotient = ops.div(numerator, ops.add(e, ops.const(1.0)))
    return power.where(negative).times(quotient)


def nan_at_minus_infinity(ops: VectorOps, x: Value, result: Value) -> Value:
    """-inf * 0, which the definition of these functions asks for; `result` elsewhere."""
    lowest = ops.compare("eq", x, ops.const(-math.inf))
    return ops.select(lowest, ops.const(math.nan), result)
