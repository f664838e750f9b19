"""log(1 + e ** x)."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._exponential import exp_excess, reduce_bounded
from ._polynomial import horner

_LARGE = 30.0  # rounds to x from below here up
# log(1 + e) / e on 0 <= e <= 1, relative minimax fit: 2**-27.
_COEFFICIENTS = (
    1.0,
    -0.4999993145465851,
    0.3333047032356262,
    -0.24958156049251556,
    0.19693192839622498,
    -0.15349096059799194,
    0.10670005530118942,
    -0.05756139010190964,
    0.02015022002160549,
    -0.0033065041061490774,
)


def softplus(ops: VectorOps, x: Value) -> Value:
    """log(1 + e ** x) for every f32, error <= 2.5 ULP; denormal results are rounded, not flushed.

    Method: max(x, 0) + log(1 + e) with e = e**-|x|, as e times a polynomial. Coefficients: iteratively reweighted
    least squares on Chebyshev nodes, rounded to f32 one after the other.
    """
    large = ops.compare("gt", x, ops.const(_LARGE))
    r, power = reduce_bounded(ops, ops.select(large, ops.const(-math.inf), ops.neg(ops.abs(x))))
    excess = exp_excess(ops, r)
    curve = horner(ops, power.times(ops.add(excess, ops.const(1.0))), _COEFFICIENTS)
    beyond = power.times(ops.fma(curve, excess, curve))
    return ops.add(ops.max(ops.const(0.0), x), beyond)
