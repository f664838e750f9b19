"""Attention of several heads, and the encoder layer that eager mode runs as one operator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.attention import attention, joined_heads, split_heads
from ..correspondence.compositions.recurrent import affine
from .call import Call, Value

# Several heads. Masks exclude keys where they are true.


def thirds(node: Call, x: GraphTensor) -> list[GraphTensor]:
    """The first axis in three parts: for queries, keys and values."""
    size = x.details.plain_dims[0] // 3
    return [node.sliced(x, 0, i * size, size) for i in range(3)]


def square_mask(
    node: Call, mask: GraphTensor, batch: int, heads: int, sizes: tuple[int, int]
) -> GraphTensor:
    """[L, S], [N * heads, L, S] or [N, heads, L, S] as a mask of [N, heads, L, S]."""
    dims = mask.details.plain_dims
    if dims == (batch * heads, *sizes):
        return node.reshaped(mask, (batch, heads, *sizes))
    if dims not in (sizes, (batch, heads, *sizes)):
        wanted = f"attn_mask must have shape {list(sizes)} or {[batch * heads, *sizes]}"
        raise node.rule(wanted, str(mask.details))
    return mask


def padding_mask(node: Call, mask: GraphTensor, batch: int, keys: int) -> GraphTensor:
    """[N, S] (or [S] of the only batch) as [N, 1, 1, S]."""
    if mask.details.elements != batch * keys:
        raise node.rule(f"key_padding_mask must have shape {[batch, keys]}", str(mask.details))
    return node.reshaped(mask, (batch, 1, 1, keys))


def attend(
    node: Call, heads: int, inputs: Sequence[GraphTensor], masks: Sequence[GraphTensor]
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


def _widened(node: Call, mask: GraphTensor, missing: int) -> GraphTensor:
    none = (0,) * (mask.details.rank - 1)
    return node.helper("pad", mask, before=(*none, 0), after=(*none, missing))


# The encoder layer, whose arguments go by position.

_PADDING_MASK = 1  # mask_type: 0 is [L, S], 1 is [N, S]


def _read_encoder_layer(node: Call, _: str) -> Value:
    """Self-attention and a two-layer perceptron, each with a residual and a normalization before or after it."""
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


def _affine(node: Call, x: GraphTensor, name: str) -> GraphTensor:
    return affine(node, x, node.tensor_of(f"{name}_weight"), node.tensor_of(f"{name}_bias"))


def _norm(node: Call, x: GraphTensor, number: int) -> GraphTensor:
    parameters = [node.tensor_of(f"norm{number}_{kind}") for kind in ("weight", "bias")]
    epsilon = float(np.float32(node.attr_float("eps", 1e-5)))
    return node.helper("layer_norm", x, *parameters, axis=2, epsilon=epsilon)


def _self_attention(node: Call, x: GraphTensor) -> GraphTensor:
    batch, length, _ = x.details.plain_dims
    heads, mask, masks = node.attr_int("num_heads"), node.optional("mask"), []
    is_padding = node.attr_int("mask_type", 0) == _PADDING_MASK
    if mask is not None and is_padding:
        masks.append(padding_mask(node, mask, batch, length))
    elif mask is not None:
        masks.append(square_mask(node, mask, batch, heads, (length, length)))
    parts = (thirds(node, node.tensor_of(f"qkv_{kind}")) for kind in ("weight", "bias"))
    projected = [affine(node, x, w, b) for w, b in zip(*parts, strict=True)]
    mixed, _ = attend(node, heads, projected, masks)
    return _affine(node, mixed, "proj")


READS = {"encoder_layer": _read_encoder_layer}
