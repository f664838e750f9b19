"""Elementwise ops and activations as PNNX operators."""

from __future__ import annotations

import math

from ...base.dtypes import BOOL
from ...graph_ir.ir.graph import Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ...graph_ir.ops.activation import SELU_ALPHA, SELU_GAMMA, clamp_limits
from .export import Exporter, Inexpressible
from .export_forms import WORDS, ExportFunction, call


def _expression(function: str) -> ExportFunction:
    return lambda e, op: e.expression(op, function)


def _div(e: Exporter, op: Op) -> str:
    if op.inputs[0].details.dtype.is_float:
        return e.expression(op, "div")
    if op.attrs.get("rounding", "floor") == "floor":
        return e.expression(op, "floor_divide")
    if id(op.inputs[0].producer_owner) in e.absorbed:
        raise Inexpressible("div of a number, truncated")
    return e.call(op, "torch.div", "input", "other", rounding_mode="trunc")


def _mod(e: Exporter, op: Op) -> str:
    return e.expression(op, "fmod" if op.attrs.get("sign") == "trunc" else "remainder")


def _not(e: Exporter, op: Op) -> str:
    is_bool = op.inputs[0].details.dtype == BOOL
    return e.call(op, "torch.logical_not" if is_bool else "torch.bitwise_not")


def _cast(e: Exporter, op: Op) -> str:
    return e.call(op, "Tensor.to", dtype=WORDS[op.outputs[0].details.dtype.name])


def _clamp(e: Exporter, op: Op) -> str:
    limits = clamp_limits(op.inputs[0].details.dtype, op.attrs.get("min"), op.attrs.get("max"))
    if limits == (None, None):
        return e.call(op, "torch.clone")
    return e.call(op, "torch.clamp", min=limits[0], max=limits[1])


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-6)


def _hard_sigmoid(e: Exporter, op: Op) -> str:
    alpha, beta = op.attrs["alpha"], op.attrs.get("beta", 0.5)
    if not (_close(alpha, 1 / 6) and _close(beta, 0.5)):
        raise Inexpressible(f"hard_sigmoid with alpha={alpha:g}, beta={beta:g}")
    return e.call(op, "F.hardsigmoid")


def _selu(e: Exporter, op: Op) -> str:
    alpha, gamma = op.attrs.get("alpha", SELU_ALPHA), op.attrs.get("gamma", SELU_GAMMA)
    if not (_close(alpha, SELU_ALPHA) and _close(gamma, SELU_GAMMA)):
        raise Inexpressible(f"selu with alpha={alpha:g}, gamma={gamma:g}")
    return e.call(op, "F.selu")


def _prelu(e: Exporter, op: Op) -> str:
    """F.prelu takes a vector of slopes, one for all or one per channel of axis 1."""
    x, slope = op.inputs
    dims, shape = x.details.plain_dims, slope.details.plain_dims
    count = math.prod(shape)
    channels = dims[1] if len(dims) > 1 else 1
    # A vector lines up with axis 1 only of a matrix; else there must be an axis of size 1 for each later one.
    aligned = count == 1 or (
        len(shape) == len(dims) - 1 and shape[0] == channels and math.prod(shape[1:]) == 1
    )
    if len(shape) > max(len(dims) - 1, 1) or not aligned or not x.details.dtype.is_float:
        raise Inexpressible(f"prelu of {x.details} with slope {slope.details}")
    vector = LogicalTensor(slope.details.dtype, (count,))
    if id(slope.producer_owner) in e.absorbed:
        (slope,) = slope.producer_owner.inputs
        shape = slope.details.plain_dims
    operand = e.operand(slope)
    if shape != (count,):
        operand = e.emit(
            "Tensor.reshape", f"{op.name}.slope", [operand], vector, {"shape": (count,)}
        )
    keys = ("input", "weight")
    return e.emit("F.prelu", op.name, [e.operand(x), operand], op.outputs[0].details, keys=keys)


_FUNCTIONS = (
    *(
        "abs",
        "neg",
        "square",
        "sign",
        "ceil",
        "floor",
        "trunc",
        "round",
        "sqrt",
        "rsqrt",
        "reciprocal",
    ),
    *("exp", "expm1", "log", "log1p", "erf", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "asinh", "acosh", "atanh", "sub", "mul", "pow", "atan2"),
)  # spelled alike in expressions

EXPORTERS: dict[str, ExportFunction] = {
    **{name: _expression(name) for name in (*_FUNCTIONS, "and", "or", "xor")},
    "max": _expression("maximum"),
    "min": _expression("minimum"),
    "shl": _expression("lshift"),
    "shr": _expression("rshift"),
    "div": _div,
    "mod": _mod,
    "not": _not,
    "isnan": call("torch.isnan"),
    "isinf": call("torch.isinf"),
    **{
        name: call(f"torch.{name}", "input", "other")
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
    },
    "select": call("torch.where", "condition", "input", "other"),
    "cast": _cast,
    "clamp": _clamp,
    **{name: call(f"F.{name}") for name in ("relu", "sigmoid", "tanh", "silu", "mish", "softsign")},
    "hard_swish": call("F.hardswish"),
    "hard_sigmoid": _hard_sigmoid,
    "leaky_relu": call("F.leaky_relu", negative_slope="alpha"),
    "elu": call("F.elu", alpha="alpha"),
    "selu": _selu,
    "gelu": call("F.gelu", approximate="approximate"),
    "softplus": call("F.softplus"),
    "prelu": _prelu,
}
"""Graph op to its writer."""
