"""e ** x where x is known to be at most 0."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._exponential import LOWEST, exp_fraction, reduce_biased, zero_below

_RAISED = 64
# n is -191, of which the factor is 0: a multiplication that underflows takes 150 cycles.
_ZERO_FACTOR = -132.25
_ZERO_WEIGHT = -88.0  # n is -127


def exp_nonpositive(ops: VectorOps, x: Value) -> Value:
    """e ** x for every f32 that is not positive, with the bits of `exp`; unspecified for others, but NaN for NaN.

    Method: that of `exp`. Nothing overflows, so one factor, 2**64 times larger, can hold the power of two of every
    result; the fraction is 2**64 times smaller, in its coefficients. 13 instructions with FMA, 12 with an instruction
    that multiplies by 2**n.
    """
    kept, x = zero_below(ops, x, LOWEST, _ZERO_FACTOR)
    r, n, raised = reduce_biased(ops, x, _RAISED)
    if ops.has_scalef:
        return ops.scalef(exp_fraction(ops, r), n, kept)
    return ops.mul(exp_fraction(ops, r, 2.0**-_RAISED), raised)


def exp_weight(ops: VectorOps, x: Value) -> Value:
    """The same as a weight beside e ** 0: 0 instead of results below 2**-126.5, of which a CPU takes 150 cycles.

    Masks such as -100 make them, in the exponential and again where a matmul multiplies by it.
    """
    if not ops.has_scalef:
        x = ops.max(ops.const(_ZERO_WEIGHT), x)
    r, n, power = reduce_biased(ops, x)
    if ops.has_scalef:
        return ops.scalef(exp_fraction(ops, r), n, ops.compare("nlt", n, ops.const(-126.0)))
    return ops.mul(exp_fraction(ops, r), power)
