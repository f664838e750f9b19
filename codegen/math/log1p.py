"""Natural logarithm of 1 + x."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._logarithm import SQRT_HALF_BITS, log_of_parts

_EXPONENT_MASK = -1 << 23
_FOUR_BITS = 0x40800000


def log1p(ops: VectorOps, x: Value) -> Value:
    """log(1 + x) for every f32, error <= 1.85 ULP; -inf at -1, NaN below, zeros keep their sign.

    Method: the exponent e of 1 + x; then 1 + x = 2**e (1 + f) with f = x 2**-e + (2**-e - 1), which keeps the digits
    that 1 + x loses. 2**-e is held four times larger, since 2**-128 is not a normal f32.
    """
    bits = ops.to_bits(ops.add(x, ops.const(1.0)))
    offset = ops.int_sub(bits, ops.int_const(SQRT_HALF_BITS))
    shift = ops.int_and(offset, ops.int_const(_EXPONENT_MASK))
    scaled = ops.from_bits(ops.int_sub(ops.to_bits(x), shift))
    inverse = ops.from_bits(ops.int_sub(ops.int_const(_FOUR_BITS), shift))
    f = ops.add(scaled, ops.fma(inverse, ops.const(0.25), ops.const(-1.0)))
    e = ops.from_int(ops.shift_right_signed(shift, 23))
    result = ops.copysign(log_of_parts(ops, e, f), x)

    result = ops.select(ops.compare("lt", x, ops.const(math.inf)), result, x)
    result = ops.select(ops.compare("lt", x, ops.const(-1.0)), ops.const(math.nan), result)
    return ops.select(ops.compare("eq", x, ops.const(-1.0)), ops.const(-math.inf), result)
