"""e ** x."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._exponential import exp_fraction, reduce_bounded

_HIGHEST = 89.0  # overflows from below here up


def exp(ops: VectorOps, x: Value) -> Value:
    """e ** x for every f32, error <= 1.2 ULP; denormal results are rounded, not flushed.

    Method: x = n ln 2 + r with n integer and |r| <= ln(2) / 2, reduced with ln 2 in two parts; a polynomial of degree 6
    gives e**r; 2**n is multiplied in as two powers of two, each normal, which handles overflow, underflow and NaN
    without a test. 18 instructions with FMA, 13 with an instruction that multiplies by 2**n; both give the same bits.
    """
    r, power = reduce_bounded(ops, ops.min(ops.const(_HIGHEST), x))
    return power.times(exp_fraction(ops, r))
