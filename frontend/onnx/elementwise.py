"""Elementwise nodes: arithmetic, comparisons, activations, casts."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...base.dtypes import BOOL, F64
from ...graph_ir.ir.graph import GraphTensor
from .scope import Handler, NodeContext, Value
from .tensors import to_dtype

_F32_MAX = float(
    np.finfo(np.float32).max
)  # the bounds of Clip before opset 11, where none is given


def _unary(op_name: str) -> Handler:
    return lambda node: node.make(op_name, [node.tensor(0)])


def _binary(op_name: str) -> Handler:
    return lambda node: node.make(op_name, [node.tensor(0), node.tensor(1)])


def _with_floats(op_name: str, **defaults: float) -> Handler:
    """One input, and float attributes of the same names in the graph op."""

    def handler(node: NodeContext) -> Value:
        attrs = {name: node.attr_float(name, default) for name, default in defaults.items()}
        return node.make(op_name, [node.tensor(0)], attrs)

    return handler


def _variadic(op_name: str) -> Handler:
    def handler(node: NodeContext) -> Value:
        return _chain(node, op_name, node.make)

    return handler


def _chain(node: NodeContext, op_name: str, last: Callable[..., GraphTensor]) -> GraphTensor:
    """op(op(x0, x1), x2)...; the last op is made by `last`."""
    first, *others = node.tensors()
    total = first
    for number, other in enumerate(others, 1):
        make = last if number == len(others) else node.helper
        total = make(op_name, [total, other])
    return total


def _mean(node: NodeContext) -> Value:
    total = _chain(node, "add", node.helper)
    return node.make("div", [total, node.constant(node.count, total.details.dtype)])


def _div(node: NodeContext) -> Value:
    inputs = [node.tensor(0), node.tensor(1)]
    attrs = {} if inputs[0].details.dtype.is_float else {"rounding": "trunc"}
    return node.make("div", inputs, attrs)


def _mod(node: NodeContext) -> Value:
    inputs = [node.tensor(0), node.tensor(1)]
    fmod = node.attr_int("fmod", 0)
    if inputs[0].details.dtype.is_float and not fmod and node.opset < 28:
        raise node.rule("fmod must be 1 for float inputs before opset 28", "0")
    return node.make("mod", inputs, {"sign": "trunc" if fmod else "floor"})


def _pow(node: NodeContext) -> Value:
    base, exponent = node.tensor(0), node.tensor(1)
    dtype, other = base.details.dtype, exponent.details.dtype
    if (
        not dtype.is_float and other.is_float
    ):  # the exponent's fraction counts, the result is truncated
        power = node.make("pow", [node.converted(base, F64), node.converted(exponent, F64)])
        return node.converted(power, dtype)
    return node.make("pow", [base, node.converted(exponent, dtype)])


def _bit_shift(node: NodeContext) -> Value:
    direction = node.attr_text("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise node.rule("direction must be LEFT or RIGHT", f"'{direction}'")
    return node.make("shl" if direction == "LEFT" else "shr", [node.tensor(0), node.tensor(1)])


def _is_inf(node: NodeContext) -> Value:
    x = node.tensor(0)
    negative, positive = node.attr_int("detect_negative", 1), node.attr_int("detect_positive", 1)
    if negative and positive:
        return node.make("isinf", [x])
    if not negative and not positive:
        no = node.constant(False, BOOL)
        return node.make("broadcast", [no], {"shape": x.details.plain_dims})
    infinity = node.constant(-math.inf if negative else math.inf, x.details.dtype)
    return node.make("eq", [x, infinity])


def _cast(node: NodeContext) -> Value:
    dtype = to_dtype(f"Cast '{node.name}'", node.attr_int("to"))
    return node.make("cast", [node.tensor(0)], {"dtype": dtype.name})


def _cast_like(node: NodeContext) -> Value:
    return node.make("cast", [node.tensor(0)], {"dtype": node.details(1).dtype.name})


def _clip(node: NodeContext) -> Value:
    if node.opset < 11:
        low, high = node.attr_float("min", -_F32_MAX), node.attr_float("max", _F32_MAX)
        attrs = {
            "min": None if low <= -_F32_MAX else low,
            "max": None if high >= _F32_MAX else high,
        }
        return node.make("clamp", [node.tensor(0)], attrs)
    bounds = {"min": node.known(1), "max": node.known(2)}
    static = all(bounds[b] is not None or not node.has(i) for i, b in enumerate(("min", "max"), 1))
    if static:
        return node.make(
            "clamp",
            [node.tensor(0)],
            {name: _bound(node, name, value) for name, value in bounds.items()},
        )
    x = node.tensor(0)
    for index, op_name in ((1, "max"), (2, "min")):
        if node.has(index):
            x = node.helper(op_name, [x, node.reshaped(node.tensor(index), ())])
    return x


def _bound(node: NodeContext, name: str, value: np.ndarray | None) -> float | int | None:
    if value is None:
        return None
    if value.size != 1:
        raise node.rule(f"{name} must be a scalar", f"shape {list(value.shape)}")
    if value.dtype.kind in "iu":
        return int(value.reshape(()))
    return float(value.reshape(()))


def _gelu(node: NodeContext) -> Value:
    return node.make(
        "gelu", [node.tensor(0)], {"approximate": node.attr_text("approximate", "none")}
    )


def _swish(node: NodeContext) -> Value:
    x = node.tensor(0)
    alpha = node.attr_float("alpha", 1.0)
    if alpha == 1.0:
        return node.make("silu", [x])
    scaled = node.helper("mul", [x, node.constant(alpha, x.details.dtype)])
    return node.make("mul", [x, node.helper("sigmoid", [scaled])])


def _thresholded_relu(node: NodeContext) -> Value:
    x = node.tensor(0)
    dtype = x.details.dtype
    above = node.helper("gt", [x, node.constant(node.attr_float("alpha", 1.0), dtype)])
    return node.make("select", [above, x, node.constant(0, dtype)])


def _shrink(node: NodeContext) -> Value:
    """X moved towards 0 by `bias` outside [-lambd, lambd], and 0 inside."""
    x, build = node.tensor(0), node.build
    dtype, wide = x.details.dtype, x.details.dtype if x.details.dtype.is_float else F64
    x = build.converted(x, wide)
    bias, edge = node.attr_float("bias", 0.0), node.attr_float("lambd", 0.5)
    above = build.helper("gt", x, build.constant(edge, wide))
    below = build.helper("lt", x, build.constant(-edge, wide))
    less, more = (build.helper(op, x, build.constant(bias, wide)) for op in ("sub", "add"))
    negative = build.helper("select", below, more, build.constant(0, wide))
    return build.converted(build.make("select", above, less, negative), dtype)


def _bit_cast(node: NodeContext) -> Value:
    dtype = to_dtype(f"BitCast '{node.name}'", node.attr_int("to"))
    if node.details(0).dtype == BOOL and dtype.size == 1:  # a byte that holds 0 or 1
        return node.make("cast", [node.tensor(0)], {"dtype": dtype.name})
    return node.make("bitcast", [node.tensor(0)], {"dtype": dtype.name})


def _celu(node: NodeContext) -> Value:
    x = node.tensor(0)
    alpha = node.constant(node.attr_float("alpha", 1.0), x.details.dtype)
    bent = node.helper("elu", [node.helper("div", [x, alpha])], {"alpha": 1.0})
    return node.make("mul", [alpha, bent])


def _where(node: NodeContext) -> Value:
    return node.make("select", [node.tensor(0), node.tensor(1), node.tensor(2)])


_CAPITALIZED = (
    *("neg", "abs", "exp", "log", "sqrt", "reciprocal", "relu", "sigmoid", "tanh", "erf"),
    *("floor", "ceil", "round", "sign", "softplus", "softsign", "mish", "not"),
    *("sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "asinh", "acosh", "atanh"),
)  # graph ops that ONNX spells the same but for the capital

SAME_UNARY = {
    **{name.capitalize(): name for name in _CAPITALIZED},
    "BitwiseNot": "not",
    "HardSwish": "hard_swish",
    "IsNaN": "isnan",
}

SAME_BINARY = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "And": "and",
    "Or": "or",
    "Xor": "xor",
    "BitwiseAnd": "and",
    "BitwiseOr": "or",
    "BitwiseXor": "xor",
    "Equal": "eq",
    "Less": "lt",
    "LessOrEqual": "le",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "PRelu": "prelu",
}

HANDLERS: dict[str, Handler] = {
    **{name: _unary(op_name) for name, op_name in SAME_UNARY.items()},
    **{name: _binary(op_name) for name, op_name in SAME_BINARY.items()},
    "LeakyRelu": _with_floats("leaky_relu", alpha=0.01),
    "Elu": _with_floats("elu", alpha=1.0),
    "HardSigmoid": _with_floats("hard_sigmoid", alpha=0.2, beta=0.5),
    "Selu": _with_floats("selu", alpha=1.6732632423543772, gamma=1.0507009873554805),
    "Max": _variadic("max"),
    "Min": _variadic("min"),
    "Sum": _variadic("add"),
    "Mean": _mean,
    "Div": _div,
    "Mod": _mod,
    "Pow": _pow,
    "BitShift": _bit_shift,
    "IsInf": _is_inf,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Clip": _clip,
    "Gelu": _gelu,
    "Swish": _swish,
    "ThresholdedRelu": _thresholded_relu,
    "Celu": _celu,
    "Shrink": _shrink,
    "BitCast": _bit_cast,
    "Where": _where,
}
