"""Activation functions."""

from __future__ import annotations

from typing import Any

from ....base.dtypes import F64
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, Value, like
from .indexing import size_list


def celu(node: OpBuilder, x: Tensor, alpha: float = 1.0) -> Tensor:
    """Alpha * elu(x / alpha)."""
    factor = like(node, alpha, x)
    return node.make("mul", factor, node.helper("elu", node.helper("div", x, factor), alpha=1.0))


def thresholded_relu(node: OpBuilder, x: Tensor, alpha: float = 1.0) -> Tensor:
    """X where x > alpha, else 0."""
    above = node.helper("gt", x, like(node, alpha, x))
    return node.make("select", above, x, like(node, 0, x))


def threshold(node: OpBuilder, x: Tensor, threshold: float = 0.0, value: float = 0.0) -> Tensor:
    """`value` where x <= threshold, else x."""
    below = node.helper("le", x, like(node, threshold, x))
    return node.make("select", below, like(node, value, x), x)


def shrink(node: OpBuilder, x: Tensor, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """X moved towards 0 by `bias` outside [-lambd, lambd], and 0 inside; integers are computed as f64."""
    dtype = x.details.dtype
    x = x if dtype.is_float else node.converted(x, F64)
    above = node.helper("gt", x, like(node, lambd, x))
    below = node.helper("lt", x, like(node, -lambd, x))
    less, more = (node.helper(op, x, like(node, bias, x)) for op in ("sub", "add"))
    negative = node.helper("select", below, more, like(node, 0, x))
    return node.converted(node.make("select", above, less, negative), dtype)


def hard_shrink(node: OpBuilder, x: Tensor, lambd: float = 0.5) -> Tensor:
    """0 where |x| <= lambd, else x."""
    small = node.helper("le", node.helper("abs", x), like(node, lambd, x))
    return node.make("select", small, like(node, 0, x), x)


def soft_shrink(node: OpBuilder, x: Tensor, lambd: float = 0.5) -> Tensor:
    """X moved towards 0 by lambd, as far as 0."""
    return node.make("sub", x, node.helper("clamp", x, min=-lambd, max=lambd))


def log_sigmoid(node: OpBuilder, x: Tensor) -> Tensor:
    """log(sigmoid(x))."""
    return node.make("neg", node.helper("softplus", node.helper("neg", x)))


def tanh_shrink(node: OpBuilder, x: Tensor) -> Tensor:
    """X - tanh(x)."""
    return node.make("sub", x, node.helper("tanh", x))


def mean_leaky_relu(
    node: OpBuilder, x: Tensor, lower: float = 1 / 8, upper: float = 1 / 3
) -> Tensor:
    """A leaky relu whose slope is random in training: the mean of its bounds."""
    return node.make("leaky_relu", x, alpha=(lower + upper) / 2)


def swish(node: OpBuilder, x: Tensor, beta: float = 1.0) -> Tensor:
    """X * sigmoid(beta * x)."""
    if beta == 1.0:
        return node.make("silu", x)
    scaled = node.helper("mul", x, like(node, beta, x))
    return node.make("mul", x, node.helper("sigmoid", scaled))


def fast_gelu(node: OpBuilder, x: Tensor) -> Tensor:
    """X * sigmoid(1.702 * x), which is near gelu."""
    return swish(node, x, 1.702)


def clip(node: OpBuilder, x: Tensor, low: Value | None, high: Value | None) -> Tensor:
    """X with what lies outside of bounds of one element replaced by these; None is not a bound."""
    low, high = (_size_tensor(node, bound, x) for bound in (low, high))
    bounds = {"min": low, "max": high}
    if not any(isinstance(bound, Tensor) for bound in bounds.values()):
        return node.make("clamp", x, **{key: _number(node, key, b) for key, b in bounds.items()})
    for op_name, bound in (("max", low), ("min", high)):
        if bound is not None:
            y = bound if isinstance(bound, Tensor) else like(node, bound, x)
            x = node.helper(op_name, x, node.reshaped(y, ()))
    return x


def _size_tensor(node: OpBuilder, bound: Value | None, x: Tensor) -> Value | None:
    """A bound that is a dynamic size as a tensor of the type of x; others as they are."""
    if isinstance(bound, Tensor) or bound is None or bound.dtype != object:
        return bound
    return node.converted(size_list(node, [*bound.reshape(-1)]), x.details.dtype)


def _number(node: OpBuilder, name: str, bound: Any) -> int | float | None:
    if bound is None:
        return None
    if bound.size != 1:
        raise node.rule(f"{name} must be a scalar", f"shape {list(bound.shape)}")
    kind = int if bound.dtype.kind in "iu" else float
    return kind(bound.reshape(()))


def _halves(node: OpBuilder, x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    size = x.details.plain_dims[axis] if x.details.rank else 1
    if size % 2:
        raise node.rule(f"axis {axis} must have an even size", str(x.details))
    first, second = (node.sliced(x, axis, start, size // 2) for start in (0, size // 2))
    return first, second


def swi_glu(node: OpBuilder, x: Tensor, axis: int = -1) -> Tensor:
    """Silu of the first half of an axis times the second."""
    gate, up = _halves(node, x, node.axis(axis, x.details.rank))
    return node.make("mul", node.helper("silu", gate), up)


def glu(node: OpBuilder, x: Tensor, axis: int = -1) -> Tensor:
    """The first half of an axis times sigmoid of the second."""
    value, gate = _halves(node, x, node.axis(axis, x.details.rank))
    return node.make("mul", value, node.helper("sigmoid", gate))


def biased_gelu(
    node: OpBuilder, x: Tensor, bias: Tensor | None = None, approximate: str = "none"
) -> Tensor:
    """gelu(x + bias)."""
    whole = x if bias is None else node.helper("add", x, bias)
    return node.make("gelu", whole, approximate=approximate)


def quick_gelu(node: OpBuilder, x: Tensor, alpha: float = 1.702) -> Tensor:
    """X * sigmoid(alpha * x)."""
    gate = node.helper("sigmoid", node.helper("mul", x, like(node, alpha, x)))
    return node.make("mul", x, gate)
