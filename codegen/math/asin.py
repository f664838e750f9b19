"""Arc sine."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._arc_sine import half_or_whole_angle


def asin(ops: VectorOps, x: Value) -> Value:
    """Arc sine in radians for every f32, error <= 0.7 ULP; odd, NaN outside [-1, 1].

    Method: a polynomial for |x| <= 1/2, pi/2 - 2 asin(sqrt((1 - |x|) / 2)) beyond, in f64 (_arc_sine.py).
    """
    wide = ops.wide
    x = ops.widen(x)
    angle, is_half = half_or_whole_angle(wide, wide.abs(x))
    large = wide.sub(wide.const(math.pi / 2), wide.add(angle, angle))
    return ops.narrow(wide.copysign(wide.select(is_half, large, angle), x))
