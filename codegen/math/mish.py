"""x * tanh(log(1 + e ** x))."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._exponential import exp_fraction, reduce_exponent
from ._gate import nan_at_minus_infinity

_LOWEST = -110.0  # x e**x rounds to 0 from here down
_HIGHEST = 15.0  # the factor of x rounds to 1 from below here up


def mish(ops: VectorOps, x: Value) -> Value:
    """X times tanh(softplus(x)) for every f32, error <= 4.5 ULP; NaN at -inf, as -inf * 0 is.

    Method: with w = e**x and v = w + w**2 / 2 the factor is v / (v + 1), which does not cancel.
    """
    raised = ops.max(ops.const(_LOWEST), x)
    r, power = reduce_exponent(ops, ops.min(ops.const(_HIGHEST), raised))
    fraction = exp_fraction(ops, r)
    half = power.times(ops.mul(fraction, ops.const(0.5)))
    v = ops.fma(fraction, half, fraction)
    factor = ops.div(v, ops.add(power.times(v), ops.const(1.0)))
    return nan_at_minus_infinity(ops, x, power.times(ops.mul(raised, factor)))
