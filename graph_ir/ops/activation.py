"""Activation functions: elementwise ops with attributes or built from several functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.dtypes import F64, DType, from_numpy
from ...tensor_ir import builder as t
from ...tensor_ir.intrinsics import INTRINSICS
from ...tensor_ir.nodes import Expr
from ..ir.attributes import ChoiceAttr, FloatAttr, NumberAttr, optional
from ..ir.logical_tensor import LogicalTensor
from .elementwise import FLOAT, NUMBER, Elementwise, Row, define
from .elementwise_unary import absolute, sigmoid_denominator

SELU_ALPHA = 1.6732632423543772
SELU_GAMMA = 1.0507009873554805
SQRT_HALF = math.sqrt(0.5)
SQRT_TWO_OVER_PI = math.sqrt(2 / math.pi)
GELU_CUBIC = 0.044715


def _leaky_relu(x: Expr, alpha: float) -> Expr:
    return prelu(x, t.const(alpha, x.dtype))


def prelu(x: Expr, slope: Expr) -> Expr:
    """X where x >= 0 (or NaN), else slope * x."""
    return t.select(x < 0, slope * x, x)


def _elu(x: Expr, alpha: float) -> Expr:
    return t.select(x < 0, alpha * t.call("expm1", x), x)


def _selu(x: Expr, alpha: float, gamma: float) -> Expr:
    below = alpha * gamma * t.call("expm1", x)
    return t.select(x < 0, below, gamma * x)


def _hard_sigmoid(x: Expr, alpha: float, beta: float) -> Expr:
    return t.maximum(t.minimum(_line(x, alpha, beta), 1), 0)


def _line(x: Expr, alpha: float, beta: float) -> Expr:
    """alpha * x + beta, alpha in two parts where it is not a number of x's type; next to its zero all else is rounding.

    A zero at a short number, such as -3 of 1/6 and 1/2, is exact: the line is alpha * (x + 3) there.
    """
    high, low = _parts(alpha, x.dtype)
    shift = beta / alpha if alpha else math.inf
    inexact = low != 0 or x.dtype == F64
    if inexact and shift == float(np.float32(shift)) == float(x.dtype.numpy.type(shift)):
        above = x + shift
        rest = above * low
        return t.call("fma", above, t.const(high, x.dtype), rest) if low else above * alpha
    line = t.call("fma", x, t.const(high, x.dtype), t.const(beta, x.dtype))
    return t.call("fma", x, t.const(low, x.dtype), line) if low else line


def _parts(alpha: float, dtype: DType) -> tuple[float, float]:
    """Return alpha as a number of `dtype` and the remainder, with one sign: both times an infinity give the
    same infinity."""
    nearest = dtype.numpy.type(alpha)
    high = float(np.nextafter(nearest, 0) if abs(float(nearest)) > abs(alpha) else nearest)
    return high, alpha - high


def _hard_swish(x: Expr) -> Expr:
    return x * _hard_sigmoid(x, 1 / 6, 0.5)


def _silu(x: Expr) -> Expr:
    return x / sigmoid_denominator(x)


def _gelu(x: Expr, approximate: str) -> Expr:
    if approximate == "none":
        return x * 0.5 * t.call("erfc", x * -SQRT_HALF)
    cubic = x * x * x
    inner = (x + cubic * GELU_CUBIC) * (2 * SQRT_TWO_OVER_PI)
    return x / sigmoid_denominator(inner)


def _gelu_function(approximate: str) -> str:
    return "gelu_tanh" if approximate == "tanh" else "gelu"


def _softplus(x: Expr) -> Expr:
    # log(1 + exp(x)) with the exponent kept below 0, so that it cannot overflow.
    return t.maximum(x, 0) + t.call("log1p", t.call("exp", -absolute(x)))


def _mish(x: Expr) -> Expr:
    return x * t.call("tanh", _softplus(x))


def _softsign(x: Expr) -> Expr:
    return x / (absolute(x) + 1)


def clamp_limits(dtype: DType, lower: float | None, upper: float | None) -> tuple[Any, Any]:
    """Bounds of a clamp as values of `dtype`, None if they exclude nothing.

    Bounds of an integer clamp are moved to the nearest integers inside them, and into the range of the type.
    """
    low = None if lower is None or lower == -math.inf else lower
    high = None if upper is None or upper == math.inf else upper
    if dtype.is_float:
        return low, high
    least, most = dtype.limits
    if low is not None:
        low = most if low == math.inf else min(max(math.ceil(low), least), most)
    if high is not None:
        high = least if high == -math.inf else min(max(math.floor(high), least), most)
    return low, high


def _clamp(x: Expr, min: float | None, max: float | None) -> Expr:
    low, high = clamp_limits(x.dtype, min, max)
    raised = x if low is None else t.maximum(x, low)
    return raised if high is None else t.minimum(raised, high)


def _prelu_ref(x: Any, slope: Any) -> Any:
    return np.where(x < 0, slope * x, x)


def _elu_ref(x: Any, alpha: float) -> Any:
    return np.where(x < 0, alpha * np.expm1(x), x)


def _gelu_ref(x: Any, approximate: str) -> Any:
    return INTRINSICS[_gelu_function(approximate)].meaning(x)


def _hard_sigmoid_ref(x: Any, alpha: float, beta: float) -> Any:
    return np.maximum(np.minimum(alpha * x + beta, 1), 0)


def _hard_swish_ref(x: Any) -> Any:
    # x + 3 is exact next to -3, where x / 6 + 1 / 2 loses its digits.
    return x * (np.maximum(np.minimum(x + 3, 6), 0) / 6)


ROWS = (
    Row("leaky_relu", "x where x >= 0, else alpha * x.", _leaky_relu, lambda x, alpha: _prelu_ref(x, alpha), FLOAT,
        attrs={"alpha": FloatAttr("slope below 0", default=0.01)}),
    Row("elu", "x where x >= 0, else alpha * (exp(x) - 1).", _elu, _elu_ref, FLOAT,
        attrs={"alpha": FloatAttr("minus the limit far below 0", default=1.0)}),
    Row("selu", "gamma * elu(x, alpha).", _selu, lambda x, alpha, gamma: gamma * _elu_ref(x, alpha), FLOAT,
        attrs={"alpha": FloatAttr("that of elu", default=SELU_ALPHA),
               "gamma": FloatAttr("scale", default=SELU_GAMMA)}),
    Row("hard_sigmoid", "alpha * x + beta clamped to [0, 1]. Frameworks differ in alpha, so it must be given.",
        _hard_sigmoid, _hard_sigmoid_ref, FLOAT,
        attrs={"alpha": FloatAttr("slope"), "beta": FloatAttr("value at 0", default=0.5)}),
    Row("hard_swish", "x * hard_sigmoid(x, 1/6, 1/2).", _hard_swish,
        _hard_swish_ref, FLOAT),
    Row("silu", "x * sigmoid(x), also called swish.", _silu, INTRINSICS["silu"].meaning, FLOAT,
        function=lambda: "silu"),
    Row("softplus", "log(1 + exp(x)).", _softplus, INTRINSICS["softplus"].meaning, FLOAT,
        function=lambda: "softplus"),
    Row("mish", "x * tanh(softplus(x)).", _mish, INTRINSICS["mish"].meaning, FLOAT,
        function=lambda: "mish"),
    Row("softsign", "x / (1 + |x|).", _softsign, lambda x: x / (1 + np.abs(x)), FLOAT),
    Row("gelu", "x * P(X <= x) of the normal distribution.", _gelu, _gelu_ref, FLOAT,
        attrs={"approximate": ChoiceAttr("none: by erf; tanh: by tanh of a cubic", "none", "tanh")},
        function=_gelu_function),
    Row("prelu", "x where x >= 0, else slope * x; slope broadcasts.", prelu, _prelu_ref, NUMBER, ("x", "slope")),
)  # fmt: skip

for _row in ROWS:
    define(_row)


def _clamp_ref(x: Any, min: float | None, max: float | None) -> Any:
    low, high = clamp_limits(from_numpy(x.dtype), min, max)
    raised = x if low is None else np.maximum(x, x.dtype.type(low))
    return raised if high is None else np.minimum(raised, x.dtype.type(high))


class _Clamp(Elementwise):
    """Base of clamp: checks the bounds."""

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The input's shape and dtype."""
        outputs = super().infer(inputs)
        for name in ("min", "max"):
            bound = self.attr(name)
            if bound is not None and math.isnan(bound):
                raise self.rule(f"{name} must be a number or none", "nan")
        return outputs


define(
    Row("clamp", "min(max(x, min), max); a bound may be none; NaN stays NaN.", _clamp, _clamp_ref, NUMBER,
        attrs={"min": optional(NumberAttr("lower bound")), "max": optional(NumberAttr("upper bound"))}),
    _Clamp,
)  # fmt: skip
