"""1 / (1 + e ** -x)."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._exponential import exp_excess, reduce_exponent
from ._gate import gated

_LOWEST = -104.0  # rounds to 0 from here down, and to 1 from 104 up


def sigmoid(ops: VectorOps, x: Value) -> Value:
    """1 / (1 + e ** -x) for every f32, error <= 2.5 ULP; denormal results are rounded, not flushed.

    Method: e / (1 + e) for negative x and 1 / (1 + e) for others with e = e**-|x|, which cannot overflow.
    """
    r, power = reduce_exponent(ops, ops.max(ops.const(_LOWEST), ops.neg(ops.abs(x))))
    one = ops.const(1.0)
    return gated(ops, x, (one, one), exp_excess(ops, r), power)
