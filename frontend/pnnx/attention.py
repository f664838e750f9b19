"""nn.MultiheadAttention."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.recurrent import affine
from ..correspondence.reading import Pair
from ..torch_calls.encoder_layer import attend, padding_mask, square_mask, thirds
from .scope import Node, Results


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
        masks.append(square_mask(node, attn_mask, batch, heads, (length, keys)))
    if key_mask is not None:
        masks.append(padding_mask(node, key_mask, batch, keys))
    mixed, weights = attend(node, heads, _projections(node, (q, k, v)), masks)
    y = affine(node, mixed, *_weight_and_bias(node, "out_proj.weight", "out_proj.bias"))
    if rank == 2:
        y = node.reshaped(y, y.details.plain_dims[1:])
    elif not by_batch:
        y = node.transposed(y, (1, 0, 2))
    return _as_written(node, y, weights)


def _as_written(node: Node, y: GraphTensor, weights: GraphTensor) -> Results:
    """Return the result of the module and its weights [N, heads, L, S], or their mean; or one of both, the one of the
    shape that the file writes: it does not say which of the results the model takes, nor whether weights are averaged.
    """
    rank = y.details.rank
    written = [node.op.types.get(name) for name in node.op.outputs]
    by_head = any(one is not None and len(one.dims) > rank for one in written)
    if not by_head:
        weights = node.helper("reduce_mean", weights, axes=(1,), keep_dims=False)
    if rank == 2:
        weights = node.reshaped(weights, weights.details.plain_dims[1:])
    if node.count > 1:
        return y, weights
    dims = None if written[0] is None else written[0].dims
    is_weights = dims == weights.details.plain_dims != y.details.plain_dims
    return weights if by_head or is_weights else y


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
    weights = thirds(node, first) if is_joined else [node.weight(n, dtype) for n in names]
    biases = [None] * 3 if bias is None else thirds(node, bias)
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


PAIRS = {"multihead": Pair(_read_multihead)}
