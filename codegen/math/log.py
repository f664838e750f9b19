"""Natural logarithm."""

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
_SMALLEST_NORMAL = 2.0**-126
_SQRT_HALF_BITS = 0x3F3504F3


def log(ops: VectorOps, x: Value) -> Value:
    """Natural logarithm of every f32, error <= 1.3 ULP; -inf at +-0, NaN below.

    Method: x = 2**e (1 + f) by integer arithmetic on the bits, denormals multiplied by 2**23 first; a polynomial for
    log(1 + f); e ln 2 is added in two parts, of which the first is exact.
    Coefficients: iteratively reweighted least squares on Chebyshev nodes, rounded to f32 one after the other.
    """
    denormal = ops.compare("lt", x, ops.const(_SMALLEST_NORMAL))
    normal = ops.select(denormal, ops.mul(x, ops.const(2.0**23)), x)
    bits = ops.to_bits(normal)
    exponent = ops.shift_right_signed(ops.int_sub(bits, ops.int_const(_SQRT_HALF_BITS)), 23)
    f = ops.sub(ops.from_bits(ops.int_sub(bits, ops.shift_left(exponent, 23))), ops.const(1.0))
    e = ops.add(ops.from_int(exponent), ops.select(denormal, ops.const(-23.0), ops.const(0.0)))

    curve = ops.mul(f, horner(ops, f, _COEFFICIENTS))
    fraction = ops.fma(curve, f, f)
    result = ops.fma(e, ops.const(_LN2_HIGH), ops.fma(e, ops.const(_LN2_LOW), fraction))

    result = ops.select(ops.compare("lt", x, ops.const(math.inf)), result, x)
    result = ops.select(ops.compare("lt", x, ops.const(0.0)), ops.const(math.nan), result)
    return ops.select(ops.compare("eq", x, ops.const(0.0)), ops.const(-math.inf), result)
