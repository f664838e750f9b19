"""F.scaled_dot_product_attention as two products around a softmax."""

from __future__ import annotations

import math

import numpy as np

from ...base.dtypes import BOOL, S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.contraction import scaled
from .scope import Handler, Node, Value


def _attention(node: Node) -> Value:
    """softmax(q @ k.T * scale + mask) @ v. A row whose mask excludes every key gives NaN."""
    q, k, v = (node.tensor_of(name) for name in ("query", "key", "value"))
    if min(x.details.rank for x in (q, k, v)) < 2:
        raise node.rule(
            "inputs must have 2 axes or more", f"{q.details}, {k.details} and {v.details}"
        )
    if node.attr_float("dropout_p", 0.0):
        raise node.unsupported("dropout_p other than 0")
    if node.attr_bool("enable_gqa", False):
        k, v = (_repeated_heads(node, x, q) for x in (k, v))
    width = q.details.plain_dims[-1]
    scale = node.attr_float("scale", 0.0) if node.given("scale") else 1 / math.sqrt(max(width, 1))
    scores = scaled(node, node.helper("matmul_core", q, k, transpose_b=True), scale)
    scores = _masked(node, scores)
    weights = node.helper("softmax", scores, axis=scores.details.rank - 1)
    return node.make("matmul_core", weights, v)


def _repeated_heads(node: Node, x: GraphTensor, q: GraphTensor) -> GraphTensor:
    """Repeat every head of x for each head of q that uses it."""
    if min(x.details.rank, q.details.rank) < 3:
        raise node.rule("inputs must have an axis of heads", f"{q.details} and {x.details}")
    *outer, heads, rows, columns = x.details.plain_dims
    wanted = q.details.plain_dims[-3]
    if not heads or wanted % heads:
        raise node.rule(
            "heads of query must be a multiple of those of key and value", f"{wanted} and {heads}"
        )
    apart = node.reshaped(x, (*outer, heads, 1, rows, columns))
    repeated = node.broadcast(apart, (*outer, heads, wanted // heads, rows, columns))
    return node.reshaped(repeated, (*outer, wanted, rows, columns))


def _masked(node: Node, scores: GraphTensor) -> GraphTensor:
    """A bool mask keeps where it is True, a float mask is added; is_causal keeps keys up to the query's position."""
    dtype = scores.details.dtype
    mask = node.optional("attn_mask")
    if node.attr_bool("is_causal", False):
        if mask is not None:
            raise node.rule("attn_mask must not be given with is_causal=True", "both")
        rows, columns = scores.details.plain_dims[-2:]
        queries = node.constant(np.arange(rows).reshape(-1, 1), S64)
        mask = node.helper("ge", queries, node.constant(np.arange(columns), S64))
    if mask is None:
        return scores
    if mask.details.dtype == BOOL:
        return node.helper("select", mask, scores, node.constant(-math.inf, dtype))
    return node.helper("add", scores, node.converted(mask, dtype))


HANDLERS: dict[str, Handler] = {
    "F.scaled_dot_product_attention": Handler(_attention, ("query", "key", "value", "attn_mask"))
}
"""Operators of this family."""
