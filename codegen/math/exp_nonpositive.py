"""e ** x where x is known to be at most 0."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._exponential import LOWEST, exp_fraction, reduce_below, zero_below

_SCALE = 2.0**-64
# n is -191, of which the factor is 0: a multiplication that underflows takes 150 cycles.
_ZERO_FACTOR = -132.25


def exp_nonpositive(ops: VectorOps, x: Value) -> Value:
    """e ** x for every f32 that is not positive, with the bits of `exp`; unspecified for others, but NaN for NaN.

    Method: that of `exp`. Nothing overflows, so one factor, 2**64 times larger, can hold the power of two of every
    result; the fraction is 2**64 times smaller, in its coefficients. 13 instructions with FMA, 12 with an instruction
    that multiplies by 2**n.
    """
    kept, x = zero_below(ops, x, LOWEST, _ZERO_FACTOR)
    r, n, raised = reduce_below(ops, x)
    if ops.has_scalef:
        return ops.scalef(exp_fraction(ops, r), n, kept)
    return ops.mul(exp_fraction(ops, r, _SCALE), raised)
