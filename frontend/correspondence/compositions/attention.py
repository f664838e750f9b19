"""Attention: two matmuls around a softmax, with heads and masks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....base.dims import Dim, Size
from ....base.dtypes import BOOL
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like
from .contraction import scaled
from .indexing import dynamic_size, positions


def split_heads(node: OpBuilder, x: Tensor, heads: int) -> Tensor:
    """[N, heads, L, width] of [N, L, heads * width]."""
    batch, length, width = x.details.plain_dims
    if heads < 1 or width % heads:
        raise node.rule("the number of heads must divide the width", f"{heads} and {width}")
    apart = node.reshaped(x, (batch, length, heads, width // heads))
    return node.transposed(apart, (0, 2, 1, 3))


def joined_heads(node: OpBuilder, x: Tensor) -> Tensor:
    """[N, L, heads * width] of [N, heads, L, width]."""
    batch, length, *rest = (moved := node.transposed(x, (0, 2, 1, 3))).details.plain_dims
    return node.reshaped(moved, (batch, length, math.prod(rest)))


def repeated_heads(node: OpBuilder, x: Tensor, heads: int) -> Tensor:
    """[..., heads, L, width]: every head of x once for each of the heads that use it."""
    *outer, own, rows, columns = x.details.plain_dims
    if not own or heads % own:
        rule = "heads of query must be a multiple of those of key and value"
        raise node.rule(rule, f"{heads} and {own}")
    apart = node.reshaped(x, (*outer, own, 1, rows, columns))
    wide = (*outer, own, heads // own, rows, columns)
    repeated = apart if heads == own else node.helper("broadcast", apart, shape=wide)
    return node.reshaped(repeated, (*outer, heads, rows, columns))


def scores_of(node: OpBuilder, q: Tensor, k: Tensor, scale: float | None = None) -> Tensor:
    """q @ k.T * scale, by default 1 / sqrt(width)."""
    width, scores = q.details.plain_dims[-1], node.helper("matmul_core", q, k, transpose_b=True)
    if scale is None and isinstance(width, Dim):
        root = node.helper("sqrt", node.converted(dynamic_size(node, width), scores.details.dtype))
        return node.helper("div", scores, root)
    return scaled(node, scores, 1 / math.sqrt(max(width, 1)) if scale is None else scale)


def causal_mask(node: OpBuilder, rows: Size, columns: Size) -> Tensor:
    """Return whether each key is not after the query."""
    return node.helper("ge", positions(node, rows, 0, 2), positions(node, columns, 0, 1))


def masked(node: OpBuilder, scores: Tensor, mask: Tensor, excludes: bool = False) -> Tensor:
    """A float mask is added; a bool mask keeps the keys where it is true, or excludes them."""
    if mask.details.dtype != BOOL:
        return node.helper("add", scores, node.converted(mask, scores.details.dtype))
    nothing = like(node, -math.inf, scores)
    pair = (nothing, scores) if excludes else (scores, nothing)
    return node.helper("select", mask, *pair)


def attention(
    node: OpBuilder,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    masks: Sequence[Tensor] = (),
    scale: float | None = None,
    excludes: bool = False,
) -> list[Tensor]:
    """softmax(q @ k.T * scale + mask) @ v, and the softmax. A row whose mask excludes every key is NaN."""
    scores = scores_of(node, q, k, scale)
    for mask in masks:
        scores = masked(node, scores, mask, excludes)
    weights = node.helper("softmax", scores, axis=scores.details.rank - 1)
    return [node.make("matmul_core", weights, v), weights]
