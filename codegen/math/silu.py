"""x / (1 + e ** -x)."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._exponential import exp_excess, reduce_exponent
from ._gate import gated, nan_at_minus_infinity

_LOWEST = -110.0  # x e**x rounds to 0 from here down


def silu(ops: VectorOps, x: Value) -> Value:
    """X times its sigmoid for every f32, error <= 3 ULP; NaN at -inf, as the product is.

    Method: that of sigmoid, x multiplied in before the power of two: the result is a normal f32 where e**x is not.
    """
    low = ops.max(ops.const(_LOWEST), ops.neg(ops.abs(x)))
    r, power = reduce_exponent(ops, low)
    return nan_at_minus_infinity(ops, x, gated(ops, x, (low, x), exp_excess(ops, r), power))
