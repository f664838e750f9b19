"""com.microsoft: GroupQueryAttention, whose queries share keys and values, with a cache and rotary embedding."""

from __future__ import annotations

from ...base.dims import Size
from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.attention import split_heads
from ..correspondence.compositions.heads import Mix, mixed_parts
from ..correspondence.compositions.indexing import positions
from ..correspondence.compositions.movement import broadcast_to
from ..correspondence.compositions.rotary import rotary
from ..op_builder import Value, like
from .group_cache import Cache, cached, is_windowed, start_of
from .heads import head_count, scale_of
from .rotary import angles_at
from .scope import Handler, NodeContext


def _group_query(node: NodeContext) -> list[Value]:
    _refuse(node)
    q, k, v = _query_parts(node)
    batch, _, queries, _ = q.details.plain_dims
    start = start_of(node, batch, queries)
    if node.attr_int("do_rotary", 0):
        q, k = (_rotated(node, x, start) for x in (q, k))
    cache = cached(node, start, k, v)
    sinks = None
    if node.has(11):
        heads = node.attr_int("num_heads")
        sinks = node.reshaped(node.converted(node.tensor(11), q.details.dtype), (1, heads, 1, 1))
    elif node.attr_int("smooth_softmax", 0) > 0:
        sinks = node.reshaped(like(node, 0, q), (1, 1, 1, 1))
    masks = _group_masks(node, cache, queries)
    cap = node.attr_float("softcap", 0.0)
    mix = Mix(masks, scale_of(node), cap, sinks, _bias(node, cache))
    y, scores, weights = mixed_parts(node, q, cache.keys, cache.values, mix)
    shown = [_shown_scores(node, scores, weights, masks)] if node.wants(3) else []
    return [y, *cache.present, *shown]


_LATER = {12: "k_scale", 13: "v_scale", 14: "q_norm_weight", 15: "k_norm_weight"}


def _refuse(node: NodeContext) -> None:
    """Raise UnsupportedError for quantized caches and normalized heads."""
    for index, what in _LATER.items():
        if node.has(index):
            raise node.unsupported(what)
    node.must_be_plain({"kv_cache_bit_width": 0, "causal": 1})


def _query_parts(node: NodeContext) -> list[GraphTensor]:
    """Q, K and V with 4 axes, [B, heads, length, size], of inputs that are apart or one."""
    counts = head_count(node, "num_heads"), *(head_count(node, "kv_num_heads"),) * 2
    if node.has(1):
        return [split_heads(node, node.tensor(i), count) for i, count in enumerate(counts)]
    width = node.details(0).plain_dims[-1]
    if width % sum(counts):
        raise node.rule(f"the width must be that of {sum(counts)} heads", str(width))
    size, at, found = width // sum(counts), 0, []
    for count in counts:
        found.append(split_heads(node, node.sliced(node.tensor(0), 2, at, count * size), count))
        at += count * size
    return found


def _rotated(node: NodeContext, x: GraphTensor, start: Size | GraphTensor) -> GraphTensor:
    """Apply the rotary embedding to the heads of x [B, heads, L, size]."""
    if not node.has(7) or not node.has(8):
        raise node.rule("cos_cache and sin_cache must be given for do_rotary", "none")
    at = node.converted(node.tensor(9), S64) if node.has(9) else None
    if at is None:
        at = positions(node, x.details.plain_dims[2], 1, 2, start)
    cos, sin = (angles_at(node, node.tensor(i), at) for i in (7, 8))
    apart = node.transposed(x, (0, 2, 1, 3))
    y = rotary(node, apart, cos, sin, bool(node.attr_int("rotary_interleaved", 0)))
    return node.transposed(y, (0, 2, 1, 3))


def _group_masks(node: NodeContext, cache: Cache, queries: Size) -> list[GraphTensor]:
    """Every query sees the keys up to its own, of these the last `local_window_size`."""
    masks = []
    window = node.attr_int("local_window_size", -1)
    own, keys = cache.positions_of(node, queries), cache.positions
    if queries != 1 or isinstance(cache.start, GraphTensor):
        masks.append(node.helper("le", keys, own))
    if window > 0:
        first = node.helper("sub", own, node.constant(window, S64))
        masks.append(node.helper("gt", keys, first))
    return masks


def _bias(node: NodeContext, cache: Cache) -> list[GraphTensor]:
    """Return the bias that is added to scores, if there is one: a column for each key, by its position."""
    if not node.has(10):
        return []
    bias, at = node.tensor(10), cache.positions
    if bias.details.rank != 4:
        raise node.rule("attention_bias must have 4 axes", str(bias.details))
    first, heads, rows, columns = bias.details.plain_dims
    batch, _, _, keys = at.details.plain_dims
    if columns == keys and not is_windowed(node):
        return [bias]
    # A buffer has more keys than there are columns: those that no query sees may have any.
    if batch == 1:
        last = positions(node, 1, 0, 1, columns - 1)
        return [
            node.helper(
                "gather", bias, node.helper("min", node.reshaped(at, (keys,)), last), axis=3
            )
        ]
    if first != batch:
        bias = broadcast_to(node, bias, (batch, heads, rows, columns))
    index = broadcast_to(node, at, (batch, heads, rows, keys))
    return [node.helper("gather_elements", bias, index, axis=3)]


def _shown_scores(
    node: NodeContext, scores: GraphTensor, weights: GraphTensor, masks: list[GraphTensor]
) -> GraphTensor:
    """output_qk: scores before the softmax, 0 where a query does not see the key, or the softmax."""
    kind = node.attr_int("qk_output", 0)
    if kind not in (1, 2):
        raise node.rule("qk_output must be 1 or 2 where output_qk is read", str(kind))
    shown = weights
    if kind == 1:
        shown = scores
        for mask in masks:
            shown = node.helper("select", mask, shown, like(node, 0, shown))
    total = node.known(6) if node.has(6) else None
    keys = shown.details.plain_dims[3]
    if not node.has(3) or keys == node.details(3).plain_dims[2] + node.details(0).plain_dims[1]:
        return shown
    if total is None:
        raise node.unsupported(
            "output_qk of a cache that keeps its size", "fix total_sequence_length"
        )
    return node.sliced(shown, 3, 0, int(total.reshape(())))


HANDLERS: dict[str, Handler] = {"com.microsoft::GroupQueryAttention": _group_query}
