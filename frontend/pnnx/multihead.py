"""nn.MultiheadAttention, and the encoder layer that PyTorch's fast path exports as one operator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...base.dtypes import BOOL
from ...graph_ir.ir.graph import GraphTensor
from .scope import Handler, Node, Value


def _projected(
    node: Node, x: GraphTensor, weight: GraphTensor, bias: GraphTensor | None
) -> GraphTensor:
    product = node.helper("matmul_core", x, weight, transpose_b=True)
    return product if bias is None else node.helper("add", product, bias)


def _rows(node: Node, x: GraphTensor, number: int, count: int) -> GraphTensor:
    """Part `number` of `count` of the first axis."""
    size = x.details.plain_dims[0] // count
    return node.sliced(x, 0, number * size, size)


@dataclass
class _Heads:
    """Attention of `heads` heads over q [N, L, E], k and v [N, S, E], all projected."""

    node: Node
    heads: int
    masks: list[GraphTensor]

    def make(self, op_name: str, *inputs: GraphTensor, **attrs: object) -> GraphTensor:
        return self.node.helper(op_name, *inputs, **attrs)

    def split(self, x: GraphTensor) -> GraphTensor:
        """[N, L, E] as [N, heads, L, E / heads]."""
        batch, length, width = x.details.plain_dims
        if not self.heads or width % self.heads:
            raise self.node.rule("num_heads must divide the width", f"{self.heads} and {width}")
        apart = self.node.reshaped(x, (batch, length, self.heads, width // self.heads))
        return self.node.transposed(apart, (0, 2, 1, 3))

    def attend(
        self, q: GraphTensor, k: GraphTensor, v: GraphTensor
    ) -> tuple[GraphTensor, GraphTensor]:
        """The values [N, L, E] and the weights [N, heads, L, S]; q, k and v are split."""
        dtype, width = q.details.dtype, q.details.plain_dims[-1]
        scores = self.make("matmul_core", q, k, transpose_b=True)
        scale = self.node.constant(1 / math.sqrt(max(width, 1)), dtype)
        scores = self.make("mul", scores, scale)
        for mask in self.masks:
            scores = self._masked(scores, mask)
        weights = self.make("softmax", scores, axis=3)
        mixed = self.node.transposed(self.make("matmul_core", weights, v), (0, 2, 1, 3))
        batch, length, *rest = mixed.details.plain_dims
        return self.node.reshaped(mixed, (batch, length, math.prod(rest))), weights

    def _masked(self, scores: GraphTensor, mask: GraphTensor) -> GraphTensor:
        """A bool mask excludes where it is True, a float mask is added; appended keys stay visible."""
        dtype = scores.details.dtype
        missing = scores.details.plain_dims[-1] - mask.details.plain_dims[-1]
        if missing > 0:
            none = (0,) * (mask.details.rank - 1)
            mask = self.make("pad", mask, before=(*none, 0), after=(*none, missing))
        if mask.details.dtype == BOOL:
            return self.make("select", mask, self.node.constant(-math.inf, dtype), scores)
        return self.make("add", scores, self.node.converted(mask, dtype))


def _mask(
    node: Node, mask: GraphTensor, batch: int, heads: int, sizes: tuple[int, int]
) -> GraphTensor:
    """[L, S], [N * heads, L, S] or [N, heads, L, S] as a mask of [N, heads, L, S]."""
    dims = mask.details.plain_dims
    if dims == (batch * heads, *sizes):
        return node.reshaped(mask, (batch, heads, *sizes))
    if dims != sizes and dims != (batch, heads, *sizes):
        wanted = f"attn_mask must have shape {list(sizes)} or {[batch * heads, *sizes]}"
        raise node.rule(wanted, str(mask.details))
    return mask


def _key_mask(node: Node, mask: GraphTensor, batch: int, keys: int) -> GraphTensor:
    """[N, S] (or [S] of the only batch) as [N, 1, 1, S]."""
    if mask.details.elements != batch * keys:
        raise node.rule(f"key_padding_mask must have shape {[batch, keys]}", str(mask.details))
    return node.reshaped(mask, (batch, 1, 1, keys))


def _multihead(node: Node) -> Value | tuple[Value, ...]:
    q = node.tensor_of("query")
    k = node.tensor_of("key") if node.given("key") else q
    v = node.tensor_of("value") if node.given("value") else k
    rank = q.details.rank
    if {x.details.rank for x in (q, k, v)} - {rank} or rank not in (2, 3):
        raise node.rule(
            "inputs must all have 2 or 3 axes", f"{q.details}, {k.details}, {v.details}"
        )
    by_batch = node.attr_bool("batch_first", False)
    q, k, v = (_batched(node, x, by_batch) for x in (q, k, v))
    batch, length, _ = q.details.plain_dims
    keys, heads = k.details.plain_dims[1], node.attr_int("num_heads")
    masks = []
    attn_mask, key_mask = (node.optional(name) for name in ("attn_mask", "key_padding_mask"))
    if attn_mask is not None:
        masks.append(_mask(node, attn_mask, batch, heads, (length, keys)))
    if key_mask is not None:
        masks.append(_key_mask(node, key_mask, batch, keys))
    group = _Heads(node, heads, masks)
    q, k, v = _projections(node, (q, k, v))
    q, k, v = group.split(q), group.split(k), group.split(v)
    if node.attr_bool("add_zero_attn", False):
        k, v = (_with_zero(node, x) for x in (k, v))
    mixed, weights = group.attend(q, k, v)
    y = _out(node, mixed)
    y = y if by_batch or rank == 2 else node.transposed(y, (1, 0, 2))
    y = node.reshaped(y, y.details.plain_dims[1:]) if rank == 2 else y
    if node.count == 1:
        return y
    mean = node.helper("reduce_mean", weights, axes=(1,), keep_dims=False)
    return y, node.reshaped(mean, mean.details.plain_dims[1:]) if rank == 2 else mean


def _batched(node: Node, x: GraphTensor, by_batch: bool) -> GraphTensor:
    """[N, L, E]."""
    if x.details.rank == 2:
        return node.reshaped(x, (1, *x.details.plain_dims))
    return x if by_batch else node.transposed(x, (1, 0, 2))


def _projections(node: Node, inputs: Sequence[GraphTensor]) -> list[GraphTensor]:
    """Queries, keys and values by the rows of one weight, or by three; learned keys and values at the end."""
    dtype = inputs[0].details.dtype
    names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
    if "in_proj_weight" in node.op.attributes:
        whole = node.weight("in_proj_weight", dtype)
        weights = [_rows(node, whole, i, 3) for i in range(3)]
    else:
        weights = [node.weight(name, dtype) for name in names]
    has_bias = node.attr_bool("bias", True) and "in_proj_bias" in node.op.attributes
    biases: list[GraphTensor | None] = [None] * 3
    if has_bias:
        bias = node.weight("in_proj_bias", dtype)
        biases = [_rows(node, bias, i, 3) for i in range(3)]
    results = [_projected(node, x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True)]
    if node.attr_bool("add_bias_kv", False):
        for place, name in ((1, "bias_k"), (2, "bias_v")):
            x = results[place]
            batch, _, width = x.details.plain_dims
            learned = node.reshaped(node.weight(name, dtype), (1, 1, width))
            learned = node.broadcast(learned, (batch, 1, width))
            results[place] = node.helper("concat", x, learned, axis=1)
    for name in ("embed_dim", "kdim", "vdim"):  # given by the weights
        node.argument(name)
    return results


def _with_zero(node: Node, x: GraphTensor) -> GraphTensor:
    """One more key or value of zeros: [N, heads, S + 1, width]."""
    return node.helper("pad", x, before=(0, 0, 0, 0), after=(0, 0, 1, 0))


def _out(node: Node, mixed: GraphTensor) -> GraphTensor:
    dtype = mixed.details.dtype
    weight = node.weight("out_proj.weight", dtype)
    has_bias = node.attr_bool("bias", True) and "out_proj.bias" in node.op.attributes
    product = node.make("matmul_core", mixed, weight, transpose_b=True)
    return node.helper("add", product, node.weight("out_proj.bias", dtype)) if has_bias else product


# aten::_transformer_encoder_layer_fwd, positional.

_LAYER = (
    *("src", "embed_dim", "num_heads", "qkv_weight", "qkv_bias", "proj_weight", "proj_bias"),
    *("use_gelu", "norm_first", "eps", "norm1_weight", "norm1_bias", "norm2_weight", "norm2_bias"),
    *("ffn1_weight", "ffn1_bias", "ffn2_weight", "ffn2_bias", "mask", "mask_type"),
)
_PADDING_MASK = 1  # mask_type: 0 is [L, S], 1 is [N, S]


def _encoder_layer(node: Node) -> Value:
    """Self-attention and a two-layer perceptron, each with a residual and a normalisation before or after it."""
    x = node.tensor_of("src")
    if x.details.rank != 3:
        raise node.rule("src must have 3 axes", str(x.details))
    node.argument("embed_dim")
    first = node.attr_bool("norm_first", False)
    attended = _self_attention(node, _norm(node, x, 1) if first else x)
    x = node.helper("add", x, attended)
    x = x if first else _norm(node, x, 1)
    y = _norm(node, x, 2) if first else x
    y = _projected(node, y, node.tensor_of("ffn1_weight"), node.tensor_of("ffn1_bias"))
    if node.attr_bool("use_gelu", False):
        y = node.helper("gelu", y, approximate="none")
    else:
        y = node.helper("relu", y)
    y = _projected(node, y, node.tensor_of("ffn2_weight"), node.tensor_of("ffn2_bias"))
    x = node.helper("add", x, y)
    return x if first else _norm(node, x, 2)


def _norm(node: Node, x: GraphTensor, number: int) -> GraphTensor:
    parameters = [node.tensor_of(f"norm{number}_{kind}") for kind in ("weight", "bias")]
    return node.helper(
        "layer_norm",
        x,
        *parameters,
        axis=2,
        epsilon=float(np.float32(node.attr_float("eps", 1e-5))),
    )


def _self_attention(node: Node, x: GraphTensor) -> GraphTensor:
    batch, length, _ = x.details.plain_dims
    heads, masks = node.attr_int("num_heads"), []
    mask = node.optional("mask")
    kind = node.attr_int("mask_type") if node.given("mask_type") else 0
    if mask is not None and kind == _PADDING_MASK:
        masks.append(_key_mask(node, mask, batch, length))
    elif mask is not None:
        masks.append(_mask(node, mask, batch, heads, (length, length)))
    group = _Heads(node, heads, masks)
    weight, bias = node.tensor_of("qkv_weight"), node.tensor_of("qkv_bias")
    q, k, v = (
        group.split(_projected(node, x, _rows(node, weight, i, 3), _rows(node, bias, i, 3)))
        for i in range(3)
    )
    mixed, _ = group.attend(q, k, v)
    return _projected(node, mixed, node.tensor_of("proj_weight"), node.tensor_of("proj_bias"))


HANDLERS: dict[str, Handler] = {
    "nn.MultiheadAttention": Handler(_multihead, ("query", "key", "value")),
    "aten::_transformer_encoder_layer_fwd": Handler(_encoder_layer, _LAYER),
}
"""Operators of this family."""
