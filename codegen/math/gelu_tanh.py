"""x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))."""

from __future__ import annotations

import math

import numpy as np

from ..vector_ops import Value, VectorOps
from ._exponential import LN2_HIGH, LN2_LOW, LOG2_E
from ._gate import SCALED_ROUND, gated

_LOWEST = -10.8  # rounds to 0 from here down
_HIGHEST = 5.5  # rounds to x from here up
# Twice the argument of tanh is x (_LINEAR + _CUBIC x**2), both in two parts. The first of 20 bits: its difference to
# any sum below 16 is exact.
_LINEAR = round(math.sqrt(8 / math.pi) * 2**20) / 2**20
_LINEAR_LOW = math.sqrt(8 / math.pi) - _LINEAR
_CUBIC = float(np.float32(0.044715 * math.sqrt(8 / math.pi)))
_CUBIC_LOW = 0.044715 * math.sqrt(8 / math.pi) - _CUBIC


def gelu_tanh(ops: VectorOps, x: Value) -> Value:
    """The approximation of gelu by tanh for every f32, error <= 3 ULP; NaN at -inf, as its product is.

    Method: x times the sigmoid of y = x (c + d x**2). An error of y is one of the result relative to it, and y reaches
    -104: the factor in brackets is held in two parts, and the reduction of y subtracts before it rounds. Without FMA
    the lower part is lost, and the error grows to 300 ULP where the result is next to 0.
    """
    raised = ops.max(ops.const(_LOWEST), x)
    low = ops.min(ops.const(_HIGHEST), raised)
    square = ops.mul(low, low)
    square_low = ops.fma(low, low, ops.neg(square))
    factor = ops.fma(square, ops.const(_CUBIC), ops.const(_LINEAR))
    rest = ops.fma(square, ops.const(_CUBIC), ops.sub(ops.const(_LINEAR), factor))
    rest = ops.fma(square_low, ops.const(_CUBIC), ops.add(rest, ops.const(_LINEAR_LOW)))
    rest = ops.fma(square, ops.const(_CUBIC_LOW), rest)

    shifted = ops.fma(ops.mul(low, factor), ops.const(-LOG2_E), ops.const(SCALED_ROUND))
    n = ops.sub(shifted, ops.const(SCALED_ROUND))
    r = ops.fma(ops.neg(low), factor, ops.mul(n, ops.const(-LN2_HIGH)))
    r = ops.fma(n, ops.const(-LN2_LOW), ops.fma(ops.neg(low), rest, r))
    return gated(ops, x, raised, r, shifted, _HIGHEST)
