"""Activation functions, as modules (nn.*) and as functions (F.*)."""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import F64
from .arithmetic import as_float
from .scope import Handler, Node, Value

SOFTPLUS_THRESHOLD = 20.0
"""PyTorch's default: above it softplus(x) is x, which f32 cannot tell apart from log(1 + exp(x))."""

RRELU_BOUNDS = (1 / 8, 1 / 3)


def _plain(op_name: str) -> Callable[[Node], Value]:
    return lambda node: node.make(op_name, node.tensor_of())


def _float(op_name: str) -> Callable[[Node], Value]:
    return lambda node: node.make(op_name, as_float(node, node.operand()))


def _clamped(low: float, high: float) -> Callable[[Node], Value]:
    def run(node: Node) -> Value:
        bounds = {"min": node.number("min_val", low), "max": node.number("max_val", high)}
        return node.make("clamp", node.tensor_of(), **bounds)

    return run


def _relu6(node: Node) -> Value:
    return node.make("clamp", node.tensor_of(), min=0.0, max=6.0)


def _hard_sigmoid(node: Node) -> Value:
    return node.make("hard_sigmoid", node.tensor_of(), alpha=1 / 6, beta=0.5)


def _leaky_relu(node: Node) -> Value:
    return node.make("leaky_relu", node.tensor_of(), alpha=node.number("negative_slope", 0.01))


def _rrelu(node: Node) -> Value:
    if node.flag("training", False):
        raise node.unsupported("training=True")
    low, high = (node.number(n, d) for n, d in zip(("lower", "upper"), RRELU_BOUNDS, strict=True))
    return node.make("leaky_relu", node.tensor_of(), alpha=(low + high) / 2)


def _elu(node: Node) -> Value:
    return node.make("elu", node.tensor_of(), alpha=node.number("alpha", 1.0))


def _celu(node: Node) -> Value:
    x = node.tensor_of()
    alpha = node.constant(node.number("alpha", 1.0), x.details.dtype)
    bent = node.helper("elu", node.helper("div", x, alpha), alpha=1.0)
    return node.make("mul", bent, alpha)


def _gelu(node: Node) -> Value:
    return node.make("gelu", node.tensor_of(), approximate=node.word("approximate", "none"))


def _softplus(node: Node) -> Value:
    x = node.tensor_of()
    dtype = x.details.dtype
    beta = node.number("beta", 1.0)
    threshold = node.number("threshold", SOFTPLUS_THRESHOLD)
    scaled = x if beta == 1 else node.helper("mul", x, node.constant(beta, dtype))
    if dtype != F64 and threshold >= SOFTPLUS_THRESHOLD:
        if beta == 1:
            return node.make("softplus", x)
        return node.make("div", node.helper("softplus", scaled), node.constant(beta, dtype))
    bent = node.helper("softplus", scaled)
    bent = bent if beta == 1 else node.helper("div", bent, node.constant(beta, dtype))
    above = node.helper("gt", scaled, node.constant(threshold, dtype))
    return node.make("select", above, x, bent)


def _log_sigmoid(node: Node) -> Value:
    return node.make("neg", node.helper("softplus", node.helper("neg", node.tensor_of())))


def _tanhshrink(node: Node) -> Value:
    x = node.tensor_of()
    return node.make("sub", x, node.helper("tanh", x))


def _hardshrink(node: Node) -> Value:
    x = node.tensor_of()
    size = node.helper("abs", x)
    small = node.helper("le", size, node.constant(node.number("lambd", 0.5), x.details.dtype))
    return node.make("select", small, node.constant(0, x.details.dtype), x)


def _softshrink(node: Node) -> Value:
    x = node.tensor_of()
    bound = node.number("lambd", 0.5)
    return node.make("sub", x, node.helper("clamp", x, min=-bound, max=bound))


def _threshold(node: Node) -> Value:
    x = node.tensor_of()
    bound, value = (
        node.constant(node.number(n, 0), x.details.dtype) for n in ("threshold", "value")
    )
    return node.make("select", node.helper("le", x, bound), value, x)


def _prelu(node: Node) -> Value:
    """One slope for all, or one for each of the channels of axis 1."""
    x = node.tensor_of()
    dims = x.details.plain_dims
    is_module = node.type.startswith("nn.")
    weight = (
        node.weight("weight", x.details.dtype)
        if is_module
        else node.tensor_of("weight", x.details.dtype)
    )
    count = weight.details.elements
    channels = dims[1] if len(dims) > 1 else 1
    if weight.details.rank > 1 or count not in (1, channels):
        raise node.rule(f"weight must have shape [1] or [{channels}]", str(weight.details))
    shape = (count,) + (1,) * (len(dims) - 2) if len(dims) > 1 else (1,) * len(dims)
    return node.make("prelu", x, node.reshaped(weight, shape))


def softmax_axis(node: Node, rank: int) -> int:
    """The dim of a softmax; without one it is 0 for tensors of rank 0, 1 and 3, else 1."""
    if node.given("dim"):
        return node.axis(node.integer("dim"), rank)
    return 0 if rank in (0, 1, 3) else 1


def _softmax(op_name: str, negate: bool = False) -> Callable[[Node], Value]:
    def run(node: Node) -> Value:
        x = node.tensor_of()
        wanted = node.dtype()
        x = x if wanted is None else node.converted(x, wanted)
        x = node.helper("neg", x) if negate else x
        axis = softmax_axis(node, x.details.rank)
        if not x.details.rank:  # a scalar counts as a vector of one
            return node.reshaped(node.helper(op_name, node.reshaped(x, (1,)), axis=0), ())
        return node.make(op_name, x, axis=axis)

    return run


def _softmax_2d(node: Node) -> Value:
    x = node.tensor_of()
    if x.details.rank not in (3, 4):
        raise node.rule("the input must have 3 or 4 axes", str(x.details))
    return node.make("softmax", x, axis=x.details.rank - 3)


def _glu(node: Node) -> Value:
    x = node.tensor_of()
    rank = x.details.rank
    axis = node.axis(node.integer("dim", -1), rank)
    size = x.details.plain_dims[axis] if rank else 1
    if size % 2:
        raise node.rule(f"axis {axis} must have an even size", str(x.details))
    half = size // 2
    value, gate = (node.part().part_of(x, axis, start, half) for start in (0, half))
    return node.make("mul", value, node.helper("sigmoid", gate))


def _dropout(node: Node) -> Value:
    """Nothing is dropped when a model runs; F.dropout does drop unless it says training=False."""
    is_function = not node.type.startswith("nn.")
    share = node.number("p", 0.5)
    if is_function and node.flag("training", True) and share:
        raise node.unsupported("training=True")
    return node.tensor_of()


_BOTH: dict[str, tuple[str, Callable[[Node], Value]]] = {
    "ReLU": ("relu", _plain("relu")),
    "ReLU6": ("relu6", _relu6),
    "Sigmoid": ("sigmoid", _float("sigmoid")),
    "Tanh": ("tanh", _float("tanh")),
    "SiLU": ("silu", _plain("silu")),
    "Mish": ("mish", _plain("mish")),
    "Hardswish": ("hardswish", _plain("hard_swish")),
    "Hardsigmoid": ("hardsigmoid", _hard_sigmoid),
    "Hardtanh": ("hardtanh", _clamped(-1.0, 1.0)),
    "Softsign": ("softsign", _plain("softsign")),
    "SELU": ("selu", _plain("selu")),
    "LeakyReLU": ("leaky_relu", _leaky_relu),
    "RReLU": ("rrelu", _rrelu),
    "ELU": ("elu", _elu),
    "CELU": ("celu", _celu),
    "GELU": ("gelu", _gelu),
    "PReLU": ("prelu", _prelu),
    "Softplus": ("softplus", _softplus),
    "LogSigmoid": ("logsigmoid", _log_sigmoid),
    "Tanhshrink": ("tanhshrink", _tanhshrink),
    "Hardshrink": ("hardshrink", _hardshrink),
    "Softshrink": ("softshrink", _softshrink),
    "Threshold": ("threshold", _threshold),
    "Softmax": ("softmax", _softmax("softmax")),
    "LogSoftmax": ("log_softmax", _softmax("log_softmax")),
    "Softmin": ("softmin", _softmax("softmax", negate=True)),
    "GLU": ("glu", _glu),
    "Dropout": ("dropout", _dropout),
    "Dropout1d": ("dropout1d", _dropout),
    "Dropout2d": ("dropout2d", _dropout),
    "Dropout3d": ("dropout3d", _dropout),
    "AlphaDropout": ("alpha_dropout", _dropout),
    "FeatureAlphaDropout": ("feature_alpha_dropout", _dropout),
}
"""Module name to function name and importer."""

HANDLERS: dict[str, Handler] = {
    **{f"nn.{module}": Handler(run) for module, (_, run) in _BOTH.items()},
    **{
        f"F.{name}": Handler(run, ("input", "weight") if name == "prelu" else ("input",))
        for name, run in _BOTH.values()
    },
    "nn.Softmax2d": Handler(_softmax_2d),
    "torch.relu": Handler(_plain("relu")),
    "torch.softmax": Handler(_softmax("softmax")),
    "torch.log_softmax": Handler(_softmax("log_softmax")),
}
"""Operators of this family."""
