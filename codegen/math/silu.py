"""x / (1 + e ** -x)."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._exponential import exp_fraction
from ._gate import gated, reduce_negated

_LOWEST = -133.2  # the denominator is infinite; from -110 down the result rounds to 0
_HIGHEST = 18.0  # the sigmoid rounds to 1 from below here up


def silu(ops: VectorOps, x: Value) -> Value:
    """X times its sigmoid for every f32, error <= 3 ULP; NaN at -inf, as -inf * 0 is.

    Method: that of sigmoid, with x in place of 1 in the fraction, which is held 2**64 times larger.
    """
    raised = ops.max(ops.const(_LOWEST), x)
    low = ops.min(ops.const(_HIGHEST), raised)
    r, shifted = reduce_negated(ops, low)
    return gated(ops, x, (raised, low), exp_fraction(ops, r), shifted)
