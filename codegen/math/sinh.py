"""Hyperbolic sine."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._polynomial import horner
from ._wide import exp2

_SMALL = 0.0625
_SMALL_COEFFICIENTS = (1.0, 1 / 6, 1 / 120)  # Taylor: the next term is below 2**-36 there
_LARGEST = 128.0  # overflows from below here up
_LOG2_E = 1 / math.log(2)


def sinh(ops: VectorOps, x: Value) -> Value:
    """Hyperbolic sine of every f32, error <= 0.6 ULP; odd, infinite at the infinities.

    Method: (e**a - e**-a) / 2 on a = |x| in f64; a short polynomial below _SMALL, where the difference would cancel.
    """
    wide = ops.wide
    x = ops.widen(x)
    a = wide.min(wide.const(_LARGEST), wide.abs(x))
    power = exp2(wide, wide.mul(a, wide.const(_LOG2_E)))
    difference = wide.sub(power, wide.div(wide.const(1.0), power))
    large = wide.mul(difference, wide.const(0.5))
    small = wide.mul(a, horner(wide, wide.mul(a, a), _SMALL_COEFFICIENTS))
    is_small = wide.compare("lt", a, wide.const(_SMALL))
    return ops.narrow(wide.copysign(wide.select(is_small, small, large), x))
