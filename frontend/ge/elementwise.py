"""Arithmetic, comparisons, activations and casts."""

from __future__ import annotations

import math

import numpy as np

from ...base.dtypes import BOOL, F32, S64
from ...graph_ir.ir.graph import GraphTensor
from ..op_builder import Value
from .scope import Handler, NodeContext, known_scalar

UNARY = {
    "Sigmoid": "sigmoid", "LogicalNot": "not", "Abs": "abs", "Neg": "neg", "Sqrt": "sqrt", "Rsqrt": "rsqrt",
    "Reciprocal": "reciprocal", "Square": "square", "Erf": "erf", "Floor": "floor", "Ceil": "ceil", "Sign": "sign",
    "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh",
    "Cosh": "cosh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Tanh": "tanh", "Relu": "relu",
    "HardSwish": "hard_swish", "Mish": "mish", "Softplus": "softplus", "Softsign": "softsign", "IsNan": "isnan",
    "IsInf": "isinf", "Rint": "round", "Expm1": "expm1", "Log1p": "log1p", "Trunc": "trunc", "Selu": "selu",
}  # fmt: skip
BINARY = {
    "Add": "add", "AddV2": "add", "Sub": "sub", "Mul": "mul", "Maximum": "max", "Minimum": "min", "Pow": "pow",
    "Atan2": "atan2", "LogicalAnd": "and", "LogicalOr": "or", "Equal": "eq", "NotEqual": "ne", "Greater": "gt",
    "GreaterEqual": "ge", "Less": "lt", "LessEqual": "le", "FloorDiv": "div", "FloorMod": "mod",
}  # fmt: skip


def _unary(op_name: str) -> Handler:
    return lambda node: node.make(op_name, node.tensor("x"))


def _binary(op_name: str) -> Handler:
    return lambda node: node.make(op_name, *node.pair())


def _real_div(node: NodeContext) -> Value:
    a, b = node.pair()
    if not a.details.dtype.is_float:  # "real" division of integers gives floats
        a, b = node.converted(a, F32), node.converted(b, F32)
    return node.make("div", a, b)


def _div(node: NodeContext) -> Value:
    return node.make("div", *node.pair(), rounding="trunc")


def _mod(node: NodeContext) -> Value:
    return node.make("mod", *node.pair(), sign="trunc")


def _squared_difference(node: NodeContext) -> Value:
    return node.make("square", node.helper("sub", *node.pair()))


def _guarded(op_name: str | None, guard: str) -> Handler:
    """f(x1, x2), but 0 where operand `guard` is 0: DivNoNan, Xdivy, Xlogy."""

    def handler(node: NodeContext) -> Value:
        a, b = node.pair()
        if op_name is None:
            value = node.helper("mul", a, node.helper("log", b))
        else:
            value = node.helper(op_name, a, b)
        zero = node.constant(0, a.details.dtype)
        is_zero = node.helper("eq", a if guard == "x1" else b, zero)
        return node.make("select", is_zero, zero, value)

    return handler


def _cast(node: NodeContext) -> Value:
    x, dtype = node.tensor("x"), node.attr_dtype("dst_type")
    if x.details.dtype == dtype:
        return x
    return node.make("cast", x, dtype=dtype.name)


def _is_finite(node: NodeContext) -> Value:
    x = node.tensor("x")
    return node.make("not", node.helper("or", node.helper("isnan", x), node.helper("isinf", x)))


def _filled_like(value: int) -> Handler:
    def handler(node: NodeContext) -> Value:
        like = node.details("x")
        return node.make("broadcast", node.constant(value, like.dtype), shape=like.plain_dims)

    return handler


def _relu6(node: NodeContext) -> Value:
    return node.make("clamp", node.tensor("x"), min=0.0, max=6.0)


def _elu(node: NodeContext) -> Value:
    x = node.tensor("x")
    if node.attr_float("input_scale") != 1.0:
        raise node.unsupported("input_scale other than 1")
    scale, alpha = node.attr_float("scale"), node.attr_float("alpha")
    if scale == 1.0:
        return node.make("elu", x, alpha=alpha)
    return node.make("selu", x, alpha=alpha, gamma=scale)


def _leaky_relu(node: NodeContext) -> Value:
    return node.make("leaky_relu", node.tensor("x"), alpha=node.attr_float("negative_slope"))


def _prelu(node: NodeContext) -> Value:
    x = node.tensor("x")
    slope = node.tensor_as("weight", x.details.dtype)
    rank = x.details.rank
    if slope.details.rank == 1 and rank > 2:  # one slope per channel, which is axis 1
        slope = node.reshaped(slope, (slope.details.elements,) + (1,) * (rank - 2))
    return node.make("prelu", x, slope)


def _gelu(approximate: str | None) -> Handler:
    def handler(node: NodeContext) -> Value:
        kind = node.attr_text("approximate") if approximate is None else approximate
        return node.make("gelu", node.tensor("x"), approximate=kind)

    return handler


def _swish_by(node: NodeContext, scale: float) -> Value:
    x = node.tensor("x")
    if scale == 1.0:
        return node.make("silu", x)
    scaled = node.helper("mul", x, node.constant(scale, x.details.dtype))
    return node.make("mul", x, node.helper("sigmoid", scaled))


def _swish(node: NodeContext) -> Value:
    return _swish_by(node, node.attr_float("scale"))


def _swi_glu(node: NodeContext) -> Value:
    x = node.tensor("x")
    axis = node.axis(node.attr_int("dim"), x.details.rank)
    size = x.details.plain_dims[axis]
    if size % 2:
        raise node.rule("the split axis must have an even size", str(x.details))
    gate, up = (node.sliced(x, axis, start, size // 2) for start in (0, size // 2))
    return node.make("mul", node.helper("silu", gate), up)


def _hard_sigmoid(node: NodeContext) -> Value:
    # 1/6 and 1/2 are printed with 6 decimals.
    alpha = node.attr_float("alpha")
    alpha = 1 / 6 if math.isclose(alpha, 1 / 6, abs_tol=5e-7) else alpha
    beta = node.attr_float("beta")
    return node.make("hard_sigmoid", node.tensor("input_x"), alpha=alpha, beta=beta)


def _erfc(node: NodeContext) -> Value:
    x = node.tensor("x")
    return node.make("sub", node.constant(1, x.details.dtype), node.helper("erf", x))


def _round(node: NodeContext) -> Value:
    if node.attr_int("decimals"):
        raise node.unsupported("decimals other than 0")
    return node.make("round", node.tensor("x"))


def _affine(node: NodeContext, x: GraphTensor, scale: float, shift: float) -> GraphTensor:
    if scale != 1.0:
        x = node.helper("mul", x, node.constant(scale, x.details.dtype))
    return x if shift == 0.0 else node.helper("add", x, node.constant(shift, x.details.dtype))


def _exp(node: NodeContext) -> Value:
    base = node.attr_float("base")
    x = _affine(node, node.tensor("x"), node.attr_float("scale"), node.attr_float("shift"))
    if base != -1.0:
        if base <= 0:
            raise node.rule("base must be positive or -1, which stands for e", str(base))
        x = node.helper("mul", x, node.constant(math.log(base), x.details.dtype))
    return node.make("exp", x)


def _log(node: NodeContext) -> Value:
    base = node.attr_float("base")
    x = _affine(node, node.tensor("x"), node.attr_float("scale"), node.attr_float("shift"))
    if base == -1.0:
        return node.make("log", x)
    if base <= 0 or base == 1.0:
        raise node.rule("base must be positive and not 1, or -1, which stands for e", str(base))
    factor = node.constant(1 / math.log(base), x.details.dtype)
    return node.make("mul", node.helper("log", x), factor)


def _with_value(op_name: str) -> Handler:
    def handler(node: NodeContext) -> Value:
        x = node.tensor("x")
        return node.make(op_name, x, node.constant(node.attr_float("value"), x.details.dtype))

    return handler


def _axpy(node: NodeContext) -> Value:
    a, b = node.pair()
    factor = node.constant(node.attr_float("alpha"), b.details.dtype)
    return node.make("add", a, node.helper("mul", b, factor))


def _add_n(node: NodeContext) -> Value:
    total, *rest = node.tensors("x")
    for x in rest:
        total = node.helper("add", total, x)
    return total


def _clip(node: NodeContext) -> Value:
    x = node.tensor("x")
    bounds = [node.known(name) for name in ("clip_value_min", "clip_value_max")]
    if all(bound is not None and bound.size == 1 and bound == bound for bound in bounds):
        lower, upper = (known_scalar(np.asarray(bound)) for bound in bounds)
        return node.make("clamp", x, min=lower, max=upper)
    low = node.tensor_as("clip_value_min", x.details.dtype)
    high = node.tensor_as("clip_value_max", x.details.dtype)
    return node.make("min", node.helper("max", x, low), high)


def _bias_add(node: NodeContext) -> Value:
    x = node.tensor("x")
    bias = node.tensor_as("bias", x.details.dtype)
    if bias.details.rank != 1:
        raise node.rule("bias must be a vector", str(bias.details))
    if node.attr_text("data_format").startswith("NC") and x.details.rank > 2:
        bias = node.reshaped(bias, (bias.details.elements,) + (1,) * (x.details.rank - 2))
    return node.make("add", x, bias)


def condition(node: NodeContext, name: str) -> GraphTensor:
    """Input `name` as bools: what is not 0."""
    return node.converted(node.tensor(name), BOOL)


def _masked_fill(node: NodeContext) -> Value:
    x = node.tensor("x")
    value = node.scalar("value", x.details.dtype)
    return node.make("select", condition(node, "mask"), node.converted(value, x.details.dtype), x)


def _select_v2(node: NodeContext) -> Value:
    return node.make("select", condition(node, "condition"), *node.pair("then", "else"))


def _select(node: NodeContext) -> Value:
    chosen, (a, b) = condition(node, "condition"), node.pair()
    if chosen.details.rank == 1 and a.details.rank > 1:  # it chooses rows
        chosen = node.reshaped(chosen, (chosen.details.elements,) + (1,) * (a.details.rank - 1))
    return node.make("select", chosen, a, b)


def _one_hot(node: NodeContext) -> Value:
    indices = node.tensor("x")
    depth = node.integer("depth") if node.has("depth") else node.attr_int("depth")
    rank = indices.details.rank + 1
    axis = node.axis(node.attr_int("axis"), rank)
    node.check_array((max(depth, 0),))
    dims = list(indices.details.plain_dims)
    places = [1] * rank
    places[axis] = max(depth, 0)
    steps = node.reshaped(node.constant(list(range(max(depth, 0))), S64), places)
    wide = node.converted(node.reshaped(indices, (*dims[:axis], 1, *dims[axis:])), S64)
    on, off = node.pair("on_value", "off_value")
    on, off = node.reshaped(on, ()), node.reshaped(off, ())
    return node.make("select", node.helper("eq", wide, steps), on, off)


HANDLERS: dict[str, Handler] = {
    **{name: _unary(op_name) for name, op_name in UNARY.items()},
    **{name: _binary(op_name) for name, op_name in BINARY.items()},
    "RealDiv": _real_div,
    "Div": _div,
    "Mod": _mod,
    "SquaredDifference": _squared_difference,
    "DivNoNan": _guarded("div", "x2"),
    "Xdivy": _guarded("div", "x1"),
    "Xlogy": _guarded(None, "x1"),
    "Cast": _cast,
    "IsFinite": _is_finite,
    "ZerosLike": _filled_like(0),
    "OnesLike": _filled_like(1),
    "Relu6": _relu6,
    "Elu": _elu,
    "LeakyRelu": _leaky_relu,
    "PRelu": _prelu,
    "Gelu": _gelu("tanh"),
    "GeluV2": _gelu(None),
    "FastGelu": lambda node: _swish_by(node, 1.702),
    "Swish": _swish,
    "SwiGlu": _swi_glu,
    "HardSigmoid": _hard_sigmoid,
    "Erfc": _erfc,
    "Round": _round,
    "Exp": _exp,
    "Log": _log,
    "Adds": _with_value("add"),
    "Muls": _with_value("mul"),
    "Axpy": _axpy,
    "AddN": _add_n,
    "ClipByValue": _clip,
    "BiasAdd": _bias_add,
    "MaskedFill": _masked_fill,
    "SelectV2": _select_v2,
    "Select": _select,
    "OneHot": _one_hot,
    "OneHotD": _one_hot,
}
