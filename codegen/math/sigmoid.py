"""1 / (1 + e ** -x)."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._exponential import exp_fraction
from ._gate import reduce_negated, sigmoid_of

_LOWEST = -104.0  # rounds to 0 from here down
_HIGHEST = 18.0  # rounds to 1 from below here up


def sigmoid(ops: VectorOps, x: Value) -> Value:
    """1 / (1 + e ** -x) for every f32, error <= 2.5 ULP; denormal results are rounded, not flushed.

    Method: the formula, with both sides of the fraction scaled so that e ** 104 does not overflow. 15 instructions with
    FMA.
    """
    x = ops.max(ops.const(_LOWEST), ops.min(ops.const(_HIGHEST), x))
    r, shifted = reduce_negated(ops, x)
    return sigmoid_of(ops, exp_fraction(ops, r), shifted)
