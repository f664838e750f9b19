"""1 / (1 + e ** -x)."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._exponential import exp_beyond_one
from ._gate import SCALE, reduce_negated, scaled_power

_LOWEST = -104.0  # rounds to 0 from here down
# 2**192 is infinite here, and e**r more than 1: no quotient underflows, which takes 150 cycles.
_INFINITE = -133.2
_HIGHEST = 18.0  # rounds to 1 from below here up


def sigmoid(ops: VectorOps, x: Value) -> Value:
    """1 / (1 + e ** -x) for every f32, error <= 2 ULP; denormal results are rounded, not flushed.

    Method: the formula, with both sides of the fraction scaled so that e ** 104 does not overflow. The 1 is added to
    what e is above 2**n, not to 2**n: one rounding of both would cost half a unit in the last place more (2.48). 17
    instructions with FMA.
    """
    low = ops.compare("lt", x, ops.const(_LOWEST))
    x = ops.select(low, ops.const(_INFINITE), ops.min(ops.const(_HIGHEST), x))
    r, shifted = reduce_negated(ops, x)
    power = scaled_power(ops, shifted)
    rest = ops.fma(exp_beyond_one(ops, r), power, ops.const(SCALE))
    return ops.div(ops.const(SCALE), ops.add(power, rest))
