"""x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._exponential import LOG2_E
from ._gate import SCALED_ROUND, gated
from ._polynomial import horner

_LOWEST = -10.8  # rounds to 0 from here down
_HIGHEST = 5.5  # rounds to x from here up
# What 2 is raised to, log2(e) times twice the argument of tanh: (1 + _MORE) x (_LINEAR + _CUBIC x**2). These two have
# the ratio that they must have, and few bits: _LINEAR has 20 behind the point, so that its difference to any sum below
# 16 is exact.
_LINEAR = 2412500 / 2**20
_CUBIC = 0.044715 * _LINEAR
_MORE = math.sqrt(8 / math.pi) * LOG2_E / _LINEAR - 1
# 2**f on |f| <= 0.5 + 155 _MORE, relative minimax fit: 2**-27.
_EXP2_COEFFICIENTS = (
    1.0,
    0.6931472420692444,
    0.24022641777992249,
    0.05550254136323929,
    0.009618819691240788,
    0.0013426285004243255,
    0.00015321058162953705,
)


def gelu_tanh(ops: VectorOps, x: Value) -> Value:
    """The approximation of gelu by tanh for every f32, error <= 3 ULP; NaN at -inf, as -inf * 0 is.

    Method: x times the sigmoid of y = x (c + d x**2). An error of y is one of the result relative to it, and y reaches
    -104: the factor in brackets is held in two parts, and y is one of powers of two, so that the reduction subtracts an
    integer before it rounds. Without FMA the lower part is lost, and the error grows to 300 ULP where the result is
    next to 0.
    """
    raised = ops.max(ops.const(_LOWEST), x)
    low = ops.min(ops.const(_HIGHEST), raised)
    square = ops.mul(low, low)
    square_low = ops.fma(low, low, ops.neg(square))
    factor = ops.fma(square, ops.const(_CUBIC), ops.const(_LINEAR))
    rest = ops.fma(square, ops.const(_CUBIC), ops.sub(ops.const(_LINEAR), factor))
    rest = ops.fma(square_low, ops.const(_CUBIC), rest)

    y = ops.mul(low, factor)
    shifted = ops.sub(ops.const(SCALED_ROUND), y)
    n = ops.sub(shifted, ops.const(SCALED_ROUND))
    f = ops.fma(ops.neg(low), factor, ops.neg(n))
    f = ops.fma(ops.neg(low), rest, ops.fma(y, ops.const(-_MORE), f))
    return gated(ops, x, (raised, low), horner(ops, f, _EXP2_COEFFICIENTS), shifted)
