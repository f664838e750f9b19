"""What operators that are no ops of the Graph IR mean: functions that build several, for any format's node."""

from __future__ import annotations

import math

import numpy as np

from ...base.dtypes import F64
from ...graph_ir.ir.graph import GraphTensor
from ..op_builder import OpBuilder

Tensor = GraphTensor


def like(node: OpBuilder, value: float, x: Tensor) -> Tensor:
    """A constant of the type of x."""
    return node.constant(value, x.details.dtype)


def mean(node: OpBuilder, *operands: Tensor) -> Tensor:
    """The mean of the operands, element by element."""
    total, *others = operands
    for x in others:
        total = node.helper("add", total, x)
    return node.make("div", total, like(node, len(operands), total))


def squared_difference(node: OpBuilder, a: Tensor, b: Tensor) -> Tensor:
    """(a - b) ** 2."""
    return node.make("square", node.helper("sub", a, b))


def erfc(node: OpBuilder, x: Tensor) -> Tensor:
    """1 - erf(x)."""
    return node.make("sub", like(node, 1, x), node.helper("erf", x))


def div_no_nan(node: OpBuilder, a: Tensor, b: Tensor) -> Tensor:
    """A / b, 0 where b is 0."""
    return _guarded(node, b, node.helper("div", a, b))


def xdivy(node: OpBuilder, a: Tensor, b: Tensor) -> Tensor:
    """A / b, 0 where a is 0."""
    return _guarded(node, a, node.helper("div", a, b))


def xlogy(node: OpBuilder, a: Tensor, b: Tensor) -> Tensor:
    """A * log(b), 0 where a is 0."""
    return _guarded(node, a, node.helper("mul", a, node.helper("log", b)))


def _guarded(node: OpBuilder, guard: Tensor, value: Tensor) -> Tensor:
    zero = like(node, 0, value)
    return node.make("select", node.helper("eq", guard, zero), zero, value)


def axpy(node: OpBuilder, a: Tensor, b: Tensor, alpha: float) -> Tensor:
    """A + alpha * b."""
    return node.make("add", a, node.helper("mul", b, like(node, alpha, b)))


def add_number(node: OpBuilder, x: Tensor, value: float) -> Tensor:
    """X + value."""
    return node.make("add", x, like(node, value, x))


def mul_number(node: OpBuilder, x: Tensor, value: float) -> Tensor:
    """X * value."""
    return node.make("mul", x, like(node, value, x))


def is_finite(node: OpBuilder, x: Tensor) -> Tensor:
    """Whether x is neither NaN nor an infinity."""
    return node.make("not", node.helper("or", node.helper("isnan", x), node.helper("isinf", x)))


def zeros_like(node: OpBuilder, x: Tensor) -> Tensor:
    """Zeros of the shape and type of x."""
    return node.make("broadcast", like(node, 0, x), shape=x.details.plain_dims)


def ones_like(node: OpBuilder, x: Tensor) -> Tensor:
    """Ones of the shape and type of x."""
    return node.make("broadcast", like(node, 1, x), shape=x.details.plain_dims)


def cast_like(node: OpBuilder, x: Tensor, target: Tensor) -> Tensor:
    """X in the type of another tensor."""
    return node.make("cast", x, dtype=target.details.dtype.name)


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


def swish(node: OpBuilder, x: Tensor, beta: float = 1.0) -> Tensor:
    """X * sigmoid(beta * x)."""
    if beta == 1.0:
        return node.make("silu", x)
    scaled = node.helper("mul", x, like(node, beta, x))
    return node.make("mul", x, node.helper("sigmoid", scaled))


def fast_gelu(node: OpBuilder, x: Tensor) -> Tensor:
    """X * sigmoid(1.702 * x), which is near gelu."""
    return swish(node, x, 1.702)


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


LARGEST = {
    "f16": 65504.0,
    "bf16": 3.3895313892515355e38,
    "f32": float(np.finfo(np.float32).max),
    "f64": float(np.finfo(np.float64).max),
}
"""The largest finite value of each float type."""


def log_sum_exp(
    node: OpBuilder, x: Tensor, axes: tuple[int, ...] | None, keep_dims: bool
) -> Tensor:
    """Log of the sum of exp(x) over axes, all of them where `axes` is None; an empty sum gives -inf."""
    dtype, dims = x.details.dtype, x.details.plain_dims
    if not x.details.elements:  # there is no largest element to keep exp from overflowing with
        total = node.helper("reduce_sum", x, axes=axes, keep_dims=keep_dims)
        return node.make("log", total)
    # The largest element is taken out so that exp cannot overflow, unless it is infinite: inf - inf is NaN.
    bound = LARGEST.get(dtype.name, math.inf)
    largest = node.helper("reduce_max", x, axes=axes, keep_dims=True)
    largest = node.helper("clamp", largest, min=-bound, max=bound)
    spread = node.helper("exp", node.helper("sub", x, largest))
    total = node.helper("reduce_sum", spread, axes=axes, keep_dims=True)
    result = node.make("add", node.helper("log", total), largest)
    if keep_dims:
        return result
    reduced = set(range(len(dims))) if axes is None else set(axes)
    return node.reshaped(result, [d for i, d in enumerate(dims) if i not in reduced])
