"""Attention as a function."""

from __future__ import annotations

import math

from ...base.dtypes import BOOL
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.attention import attention, causal_mask, repeated_heads
from ..op_builder import like
from .call import Call, Value


def _read_attention(node: Call, _: str) -> Value:
    """A bool mask keeps keys where it is true; is_causal keeps those up to the query's position."""
    q, k, v = (node.tensor_of(name) for name in ("query", "key", "value"))
    shapes = f"{q.details}, {k.details} and {v.details}"
    is_grouped, is_causal = (node.attr_bool(n, False) for n in ("enable_gqa", "is_causal"))
    if min(x.details.rank for x in (q, k, v)) < 2 + is_grouped:
        raise node.rule(f"inputs must have {2 + is_grouped} axes or more", shapes)
    if node.attr_float("dropout_p", 0.0):
        raise node.unsupported("dropout_p other than 0")
    if is_grouped:
        k, v = (repeated_heads(node, x, q.details.plain_dims[-3]) for x in (k, v))
    mask, scale = node.optional("attn_mask"), node.read_attribute("scale", "float", None)
    if mask is None:
        rows, columns = q.details.plain_dims[-2], k.details.plain_dims[-2]
        masks = (causal_mask(node, rows, columns),) if is_causal else ()
        return attention(node, q, k, v, masks, scale)[0]
    if is_causal:
        raise node.rule("attn_mask must not be given with is_causal=True", "both")
    y = attention(node.part(), q, k, v, (mask,), scale)[0]
    return node.make("select", _sees(node, mask), y, like(node, 0, y))


def _sees(node: Call, mask: GraphTensor) -> GraphTensor:
    """Return whether a mask leaves a query any key; the result of one without keys is 0, not its softmax's NaN."""
    if mask.details.dtype == BOOL:
        return node.helper("reduce_any", mask, axes=(-1,), keep_dims=True)
    largest = node.helper("reduce_max", mask, axes=(-1,), keep_dims=True)
    return node.helper("gt", largest, like(node, -math.inf, mask))


READS = {"attention": _read_attention}
