"""The error function."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._polynomial import horner

# erf(x) / x = 1 + P(x * x), relative minimax fit for |x| < 1.
_SMALL_COEFFICIENTS = (
    0.12837912142276764,
    -0.37612321972846985,
    0.11280151456594467,
    -0.026710577309131622,
    0.004916755482554436,
    -0.0005628342623822391,
)
# log2(1 - erf(a)) for 1 <= a <= 4, weighted by the share of 1 - erf(a) in erf(a).
_LOG2_ERFC_COEFFICIENTS = (
    -0.003778661135584116,
    -1.612386703491211,
    -0.9438688158988953,
    -0.12811096012592316,
    0.02139783464372158,
    -0.001669515622779727,
)
# 2**f on |f| <= 1/2, relative minimax fit.
_EXP2_COEFFICIENTS = (
    1.0,
    0.6931470036506653,
    0.24022246897220612,
    0.0555071085691452,
    0.009671292267739773,
    0.0013269537594169378,
)
_SATURATED = 4.0  # erf rounds to 1 from below here up
# Adding it rounds to an integer that stands in the low mantissa bits, raised by the exponent bias.
_ROUND = 1.5 * 2.0**23 + 127


def erf(ops: VectorOps, x: Value) -> Value:
    """The error function of every f32, error <= 1.85 ULP; odd, +-1 at the infinities.

    Method: for a = |x| >= 1, 1 - 2**q(a) with a polynomial q; below, an odd polynomial; chosen by a select.
    27 instructions with FMA.
    Coefficients: iteratively reweighted least squares on Chebyshev nodes, rounded to f32 one after the other.
    """
    a = ops.min(ops.const(_SATURATED), ops.abs(x))
    exponent = horner(ops, a, _LOG2_ERFC_COEFFICIENTS)
    shifted = ops.add(exponent, ops.const(_ROUND))
    f = ops.sub(exponent, ops.sub(shifted, ops.const(_ROUND)))
    power = ops.from_bits(ops.shift_left(ops.to_bits(shifted), 23))
    large = ops.fma(ops.neg(horner(ops, f, _EXP2_COEFFICIENTS)), power, ops.const(1.0))

    small = ops.fma(a, horner(ops, ops.mul(a, a), _SMALL_COEFFICIENTS), a)
    is_small = ops.compare("lt", a, ops.const(1.0))
    return ops.copysign(ops.select(is_small, small, large), x)
