"""Arc cosine."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._arc_sine import half_or_whole_angle


def acos(ops: VectorOps, x: Value) -> Value:
    """Arc cosine in radians for every f32, error <= 0.7 ULP; NaN outside [-1, 1].

    Method: pi/2 - asin(x) for |x| <= 1/2; beyond, acos(|x|) = 2 asin(sqrt((1 - |x|) / 2)), and its complement to pi for
    negative x, in f64 (_arc_sine.py).
    """
    wide = ops.wide
    x = ops.widen(x)
    angle, is_half = half_or_whole_angle(wide, wide.abs(x))
    double = wide.add(angle, angle)
    negative = wide.compare("lt", x, wide.const(0.0))
    large = wide.select(negative, wide.sub(wide.const(math.pi), double), double)
    small = wide.sub(wide.const(math.pi / 2), wide.copysign(angle, x))
    return ops.narrow(wide.select(is_half, large, small))
