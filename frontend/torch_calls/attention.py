"""Attention as a function."""

from __future__ import annotations

from ..correspondence.compositions.attention import (
    attention,
    causal_mask,
    repeated_heads,
)
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
    mask = node.optional("attn_mask")
    if is_causal:
        if mask is not None:
            raise node.rule("attn_mask must not be given with is_causal=True", "both")
        mask = causal_mask(node, q.details.plain_dims[-2], k.details.plain_dims[-2])
    scale = node.read_attribute("scale", "float", None)
    return attention(node, q, k, v, () if mask is None else (mask,), scale)[0]


READS = {"attention": _read_attention}
"""Functions that rows name after `by`."""
