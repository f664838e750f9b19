"""Arithmetic of one or two tensors and numbers."""

from __future__ import annotations

import math

from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like


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
    return node.make("lt", node.helper("abs", x), like(node, math.inf, x))


def round_half_away(node: OpBuilder, x: Tensor) -> Tensor:
    """X as a whole number; halves are rounded away from 0."""
    whole = node.helper("trunc", x)
    rest = node.helper("abs", node.helper("sub", x, whole))
    up = node.helper("ge", rest, like(node, 0.5, x))
    one = node.helper("select", up, node.helper("sign", x), like(node, 0, x))
    return node.make("add", whole, one)


def cube_root(node: OpBuilder, x: Tensor) -> Tensor:
    """The real cube root."""
    root = node.helper("pow", node.helper("abs", x), like(node, 1 / 3, x))
    return node.make("mul", node.helper("sign", x), root)


def zeros_like(node: OpBuilder, x: Tensor) -> Tensor:
    """Zeros of the shape and type of x."""
    return node.make("broadcast", like(node, 0, x), shape=x.details.plain_dims)


def ones_like(node: OpBuilder, x: Tensor) -> Tensor:
    """Ones of the shape and type of x."""
    return node.make("broadcast", like(node, 1, x), shape=x.details.plain_dims)


def cast_like(node: OpBuilder, x: Tensor, target: Tensor) -> Tensor:
    """X in the type of another tensor."""
    return node.make("cast", x, dtype=target.details.dtype.name)
