"""The final steps shared by log and log1p in f32."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._polynomial import horner

# log(1 + f) = f + f**2 * (-1/2 + f * P(f)), relative minimax fit for sqrt(1/2) <= 1 + f < sqrt(2).
_COEFFICIENTS = (
    -0.5,
    0.3333390951156616,
    -0.2500133514404297,
    0.199631005525589,
    -0.16577652096748352,
    0.14914508163928986,
    -0.14266933500766754,
    0.08700404316186905,
)
_LN2_HIGH = 0.693145751953125  # 15 bits: times any exponent, exact
_LN2_LOW = math.log(2) - _LN2_HIGH

SQRT_HALF_BITS = 0x3F3504F3
"""sqrt(1/2): the mantissas start there, so that those next to 1 have exponent 0 on both sides."""


def log_of_parts(ops: VectorOps, e: Value, f: Value) -> Value:
    """e ln 2 + log(1 + f) for an integer e and sqrt(1/2) <= 1 + f < sqrt(2).

    Coefficients: iteratively reweighted least squares on Chebyshev nodes, rounded to f32 one after the other.
    """
    curve = ops.mul(f, horner(ops, f, _COEFFICIENTS))
    fraction = ops.fma(curve, f, f)
    return ops.fma(e, ops.const(_LN2_HIGH), ops.fma(e, ops.const(_LN2_LOW), fraction))
