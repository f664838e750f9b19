"""Normalizations that are made of others."""

from __future__ import annotations

from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like
from .reduction import lp_norm


def l2_normalize(node: OpBuilder, x: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    """X / sqrt(max(sum of squares, eps)) over axes, all of them where none are given."""
    total = node.helper("reduce_sum_square", x, axes=axes or None, keep_dims=True)
    return node.make("mul", x, node.helper("rsqrt", node.helper("max", total, like(node, eps, x))))


def lp_normalize(
    node: OpBuilder, x: Tensor, p: float = 2.0, at: int = 1, eps: float = 1e-12
) -> Tensor:
    """X / max(p-norm along axis `at`, eps)."""
    axis = node.axis(at, x.details.rank)
    norm = lp_norm(node, x, p, (axis,), keep_dims=True)
    return node.make("div", x, node.helper("clamp", norm, min=eps, max=None))
