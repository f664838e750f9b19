"""nn.MultiheadAttention, and the encoder layer that the fast path exports as one operator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.attention import (
    attention,
    joined_heads,
    split_heads,
)
from ..correspondence.compositions.recurrent import affine
from ..correspondence.reading import Pair
from .scope import Node, Results, Value

# Several heads. Masks exclude keys where they are true.


def _thirds(node: Node, x: GraphTensor) -> list[GraphTensor]:
    """The first axis in three parts: for queries, keys and values."""
    size = x.details.plain_dims[0] // 3
    return [node.sliced(x, 0, i * size, size) for i in range(3)]


def _mask(
    node: Node, mask: GraphTensor, batch: int, heads: int, sizes: tuple[int, int]
) -> GraphTensor:
    """[L, S], [N * heads, L, S] or [N, heads, L, S] as a mask of [N, heads, L, S]."""
    dims = mask.details.plain_dims
    if dims == (batch * heads, *sizes):
        return node.reshaped(mask, (batch, heads, *sizes))
    if dims not in (sizes, (batch, heads, *sizes)):
        wanted = f"attn_mask must have shape {list(sizes)} or {[batch * heads, *sizes]}"
        raise node.rule(wanted, str(mask.details))
    return mask


def _key_mask(node: Node, mask: GraphTensor, batch: int, keys: int) -> GraphTensor:
    """[N, S] (or [S] of the only batch) as [N, 1, 1, S]."""
    if mask.details.elements != batch * keys:
        raise node.rule(f"key_padding_mask must have shape {[batch, keys]}", str(mask.details))
    return node.reshaped(mask, (batch, 1, 1, keys))


def _attend(
    node: Node, heads: int, inputs: Sequence[GraphTensor], masks: Sequence[GraphTensor]
) -> tuple[GraphTensor, GraphTensor]:
    """The values [N, L, E] of projected queries, keys and values, and the weights [N, heads, L, S].

    Keys appended to those that masks know stay visible.
    """
    q, k, v = (split_heads(node, x, heads) for x in inputs)
    if node.attr_bool("add_zero_attn", False):
        k, v = (node.helper("pad", x, before=(0,) * 4, after=(0, 0, 1, 0)) for x in (k, v))
    missing = [k.details.plain_dims[2] - mask.details.plain_dims[-1] for mask in masks]
    wide = [_widened(node, mask, n) if n else mask for mask, n in zip(masks, missing, strict=True)]
    mixed, weights = attention(node.part(), q, k, v, wide, excludes=True)
    return joined_heads(node, mixed), weights


def _widened(node: Node, mask: GraphTensor, missing: int) -> GraphTensor:
    none = (0,) * (mask.details.rank - 1)
    return node.helper("pad", mask, before=(*none, 0), after=(*none, missing))


def _read_multihead(node: Node, _: str) -> Results:
    q = node.tensor_of("query")
    k = node.tensor_of("key") if node.given("key") else q
    v = node.tensor_of("value") if node.given("value") else k
    rank = q.details.rank
    if {x.details.rank for x in (q, k, v)} - {rank} or rank not in (2, 3):
        shapes = f"{q.details}, {k.details}, {v.details}"
        raise node.rule("inputs must all have 2 or 3 axes", shapes)
    by_batch = node.attr_bool("batch_first", False)
    q, k, v = (_batched(node, x, by_batch) for x in (q, k, v))
    batch, length = q.details.plain_dims[:2]
    keys, heads = k.details.plain_dims[1], node.attr_int("num_heads")
    masks = []
    attn_mask, key_mask = (node.optional(name) for name in ("attn_mask", "key_padding_mask"))
    if attn_mask is not None:
        masks.append(_mask(node, attn_mask, batch, heads, (length, keys)))
    if key_mask is not None:
        masks.append(_key_mask(node, key_mask, batch, keys))
    mixed, weights = _attend(node, heads, _projections(node, (q, k, v)), masks)
    y = affine(node, mixed, *_weight_and_bias(node, "out_proj.weight", "out_proj.bias"))
    if rank == 2:
        y = node.reshaped(y, y.details.plain_dims[1:])
    elif not by_batch:
        y = node.transposed(y, (1, 0, 2))
    if node.count == 1:
        return y
    mean = node.helper("reduce_mean", weights, axes=(1,), keep_dims=False)
    return y, node.reshaped(mean, mean.details.plain_dims[1:]) if rank == 2 else mean


def _batched(node: Node, x: GraphTensor, by_batch: bool) -> GraphTensor:
    """[N, L, E]."""
    if x.details.rank == 2:
        return node.reshaped(x, (1, *x.details.plain_dims))
    return x if by_batch else node.transposed(x, (1, 0, 2))


def _weight_and_bias(node: Node, weight: str, bias: str) -> tuple[GraphTensor, GraphTensor | None]:
    """Attributes of the module in the type of its queries; the bias if it has one."""
    dtype = node.tensor_of("query").details.dtype
    has_bias = node.attr_bool("bias", True) and bias in node.op.attributes
    return node.weight(weight, dtype), node.weight(bias, dtype) if has_bias else None


def _projections(node: Node, inputs: Sequence[GraphTensor]) -> list[GraphTensor]:
    """Queries, keys and values by the rows of one weight, or by three; learned keys and values at the end."""
    dtype = inputs[0].details.dtype
    names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
    is_joined = "in_proj_weight" in node.op.attributes
    first, bias = _weight_and_bias(
        node, "in_proj_weight" if is_joined else names[0], "in_proj_bias"
    )
    weights = _thirds(node, first) if is_joined else [node.weight(n, dtype) for n in names]
    biases = [None] * 3 if bias is None else _thirds(node, bias)
    results = [affine(node, x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True)]
    if node.attr_bool("add_bias_kv", False):
        for number, name in ((1, "bias_k"), (2, "bias_v")):
            batch, _, width = results[number].details.plain_dims
            learned = node.reshaped(node.weight(name, dtype), (1, 1, width))
            learned = node.broadcast(learned, (batch, 1, width))
            results[number] = node.helper("concat", results[number], learned, axis=1)
    for name in ("embed_dim", "kdim", "vdim"):  # given by the weights
        node.argument(name)
    return results


# The encoder layer, whose arguments go by position.

_PADDING_MASK = 1  # mask_type: 0 is [L, S], 1 is [N, S]


def _read_encoder_layer(node: Node, _: str) -> Value:
    """Self-attention and a two-layer perceptron, each with a residual and a normalisation before or after it."""
    x = node.tensor_of("src")
    if x.details.rank != 3:
        raise node.rule("src must have 3 axes", str(x.details))
    first = node.attr_bool("norm_first", False)
    x = node.helper("add", x, _self_attention(node, _norm(node, x, 1) if first else x))
    x = x if first else _norm(node, x, 1)
    y = _affine(node, _norm(node, x, 2) if first else x, "ffn1")
    if node.attr_bool("use_gelu", False):
        y = node.helper("gelu", y, approximate="none")
    else:
        y = node.helper("relu", y)
    x = node.helper("add", x, _affine(node, y, "ffn2"))
    return x if first else _norm(node, x, 2)


def _affine(node: Node, x: GraphTensor, name: str) -> GraphTensor:
    return affine(node, x, node.tensor_of(f"{name}_weight"), node.tensor_of(f"{name}_bias"))


def _norm(node: Node, x: GraphTensor, number: int) -> GraphTensor:
    parameters = [node.tensor_of(f"norm{number}_{kind}") for kind in ("weight", "bias")]
    epsilon = float(np.float32(node.attr_float("eps", 1e-5)))
    return node.helper("layer_norm", x, *parameters, axis=2, epsilon=epsilon)


def _self_attention(node: Node, x: GraphTensor) -> GraphTensor:
    batch, length, _ = x.details.plain_dims
    heads, mask, masks = node.attr_int("num_heads"), node.optional("mask"), []
    is_padding = node.attr_int("mask_type", 0) == _PADDING_MASK
    if mask is not None and is_padding:
        masks.append(_key_mask(node, mask, batch, length))
    elif mask is not None:
        masks.append(_mask(node, mask, batch, heads, (length, length)))
    parts = (_thirds(node, node.tensor_of(f"qkv_{kind}")) for kind in ("weight", "bias"))
    projected = [affine(node, x, w, b) for w, b in zip(*parts, strict=True)]
    mixed, _ = _attend(node, heads, projected, masks)
    return _affine(node, mixed, "proj")


PAIRS = {
    "multihead": Pair(_read_multihead),
    "encoder_layer": Pair(_read_encoder_layer),
}
"""Functions that rows name after `by`."""
