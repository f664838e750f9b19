"""Natural logarithm."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._logarithm import SQRT_HALF_BITS, log_of_parts

_SMALLEST_NORMAL = 2.0**-126


def log(ops: VectorOps, x: Value) -> Value:
    """Natural logarithm of every f32, error <= 1.3 ULP; -inf at +-0, NaN below.

    Method: x = 2**e (1 + f) by integer arithmetic on the bits, denormals multiplied by 2**23 first; a polynomial for
    log(1 + f); e ln 2 is added in two parts, of which the first is exact (_logarithm.py). 24 instructions with FMA.
    """
    denormal = ops.compare("lt", x, ops.const(_SMALLEST_NORMAL))
    normal = ops.select(denormal, ops.mul(x, ops.const(2.0**23)), x)
    bits = ops.to_bits(normal)
    exponent = ops.shift_right_signed(ops.int_sub(bits, ops.int_const(SQRT_HALF_BITS)), 23)
    mantissa = ops.from_bits(ops.int_sub(bits, ops.shift_left(exponent, 23)))
    e = ops.add(ops.from_int(exponent), ops.select(denormal, ops.const(-23.0), ops.const(0.0)))
    result = log_of_parts(ops, e, ops.sub(mantissa, ops.const(1.0)))

    result = ops.select(ops.compare("lt", x, ops.const(math.inf)), result, x)
    result = ops.select(ops.compare("lt", x, ops.const(0.0)), ops.const(math.nan), result)
    return ops.select(ops.compare("eq", x, ops.const(0.0)), ops.const(-math.inf), result)
