"""Arc tangent of a quotient, with the quadrant."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._polynomial import horner

# atan(t) / t = P(t * t), relative minimax fit for 0 <= t <= 1: 2**-31.
_COEFFICIENTS = (
    0.9999999996282287,
    -0.33333323935227693,
    0.19999604631319318,
    -0.14279159548900067,
    0.1105450064586485,
    -0.0879877004691388,
    0.06716103380080546,
    -0.04435744161629044,
    0.02227431142853557,
    -0.007199363669770196,
    0.0010911066564079136,
)


def atan2(ops: VectorOps, y: Value, x: Value) -> Value:
    """The angle of the point (x, y) in radians, -pi to pi, for every pair of f32, error <= 0.6 ULP.

    Special cases as in C99 (annex F.10.1.4): signed zeros choose between 0 and pi, infinities count as equal.
    Method: a polynomial for the smaller coordinate over the larger, then the octant, in f64.
    """
    wide = ops.wide
    x, y = ops.widen(x), ops.widen(y)
    width, height = wide.abs(x), wide.abs(y)
    over, under = wide.min(width, height), wide.max(width, height)
    ratio = wide.div(over, under)
    infinite = wide.compare("eq", over, wide.const(math.inf))
    ratio = wide.select(infinite, wide.const(1.0), ratio)
    ratio = wide.select(wide.compare("eq", under, wide.const(0.0)), wide.const(0.0), ratio)
    angle = wide.mul(ratio, horner(wide, wide.mul(ratio, ratio), _COEFFICIENTS))

    steep = wide.compare("gt", height, width)
    angle = wide.select(steep, wide.sub(wide.const(math.pi / 2), angle), angle)
    left = wide.int_compare("lt", wide.to_bits(x), wide.int_const(0))
    angle = wide.select(left, wide.sub(wide.const(math.pi), angle), angle)
    either = wide.add(width, height)
    angle = wide.select(wide.compare("ne", either, either), either, angle)
    return ops.narrow(wide.copysign(angle, y))
