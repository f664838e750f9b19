"""com.microsoft: GroupQueryAttention, whose queries share keys and values, with a cache and rotary embedding."""

from __future__ import annotations

from ...base.dims import Size
from ...base.dtypes import S64
from ...base.records import dataclass
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.attention import split_heads
from ..correspondence.compositions.indexing import positions
from ..correspondence.compositions.rotary import rotary
from ..op_builder import OpBuilder, Value, like
from .heads import Mix, head_count, mixed, scale_of
from .rotary import angles_at
from .scope import Handler, NodeContext


@dataclass(frozen=True)
class _Cache:
    """Where new keys stand: `start` is the position of the first, a number, an open size, or s64 [B, 1]."""

    start: Size | GraphTensor
    keys: GraphTensor
    values: GraphTensor

    def start_with(self, node: OpBuilder, axes: int) -> Size | GraphTensor:
        """The start, to be added to numbers of so many axes."""
        if not isinstance(self.start, GraphTensor):
            return self.start
        return node.reshaped(self.start, (self.start.details.plain_dims[0], *(1,) * (axes - 1)))


def _group_query(node: NodeContext) -> list[Value]:
    _refuse(node)
    q, k, v = _query_parts(node)
    batch, _, queries, _ = q.details.plain_dims
    start = _start(node, batch, queries)
    if node.attr_int("do_rotary", 0):
        q, k = (_rotated(node, x, start) for x in (q, k))
    cache = _cached(node, start, k, v)
    sinks = None
    if node.has(11):
        heads = node.attr_int("num_heads")
        sinks = node.reshaped(node.converted(node.tensor(11), q.details.dtype), (1, heads, 1, 1))
    elif node.attr_int("smooth_softmax", 0) > 0:
        sinks = node.reshaped(like(node, 0, q), (1, 1, 1, 1))
    masks = _group_masks(node, cache, queries)
    mix = Mix(masks, scale_of(node), node.attr_float("softcap", 0.0), sinks)
    y = mixed(node, q, cache.keys, cache.values, mix)
    return [y, cache.keys, cache.values]


_LATER = {12: "k_scale", 13: "v_scale", 14: "q_norm_weight", 15: "k_norm_weight"}


def _refuse(node: NodeContext) -> None:
    """UnsupportedError for quantised caches and normalised heads."""
    for index, what in _LATER.items():
        if node.has(index):
            raise node.unsupported(what)
    for name, plain in (("kv_cache_bit_width", 0), ("sliding_window_cache", 0), ("causal", 1)):
        if node.attr_int(name, plain) != plain:
            raise node.unsupported(f"{name}={node.attr_int(name)}")


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


def _start(node: NodeContext, batch: Size, queries: Size) -> Size | GraphTensor:
    """The position of the first query: the length of the past, unless the buffer of the past is longer."""
    if not node.has(3):
        return 0
    past = node.details(3).plain_dims[2]
    ends = node.helper("add", node.converted(node.tensor(5), S64), node.constant(1, S64))
    own = positions(node, 1, 0, 1, 0 - queries)
    starts = node.helper("max", node.helper("add", ends, own), node.constant(0, S64))
    if not _is_buffer(node):
        fits = node.helper("eq", starts, positions(node, 1, 0, 1, past))
        rule = f"must be the number of keys less one, {past + queries} - 1, for every sentence"
        _require(node, fits, rule)
        return past
    last = node.helper("add", starts, positions(node, 1, 0, 1, queries))
    fits = node.helper("le", last, positions(node, 1, 0, 1, past))
    _require(node, fits, f"must be less than the length of the cache, {past}")
    return node.reshaped(starts, (batch, 1))


def _require(node: NodeContext, fits: GraphTensor, rule: str) -> None:
    whole = node.helper("reduce_all", fits, axes=(0,), keep_dims=False)
    node.scope.require(whole, f"GroupQueryAttention: '{node.key_of(5)}' {rule}")


def _is_buffer(node: NodeContext) -> bool:
    """Whether the file declares that the cache keeps its size: a buffer of which the first keys count."""
    names = (node.node.input[3], node.node.output[1] if node.wants(1) else "")
    past, present = (node.scope.written_shapes.get(str(name)) for name in names)
    return past is not None and past == present


def _rotated(node: NodeContext, x: GraphTensor, start: Size | GraphTensor) -> GraphTensor:
    """X [B, heads, L, size] with its heads turned."""
    if not node.has(7) or not node.has(8):
        raise node.rule("cos_cache and sin_cache must be given for do_rotary", "none")
    at = node.converted(node.tensor(9), S64) if node.has(9) else None
    if at is None:
        at = positions(node, x.details.plain_dims[2], 1, 2, start)
    cos, sin = (angles_at(node, node.tensor(i), at) for i in (7, 8))
    apart = node.transposed(x, (0, 2, 1, 3))
    y = rotary(node, apart, cos, sin, bool(node.attr_int("rotary_interleaved", 0)))
    return node.transposed(y, (0, 2, 1, 3))


def _cached(node: NodeContext, start: Size | GraphTensor, k: GraphTensor, v: GraphTensor) -> _Cache:
    """The cache with the new keys and values."""
    if not node.has(3):
        return _Cache(start, k, v)
    pasts = node.tensor(3), node.tensor(4)
    if not isinstance(start, GraphTensor):
        joined = [node.helper("concat", p, x, axis=2) for p, x in zip(pasts, (k, v), strict=True)]
    else:
        joined = [_written(node, p, x, start) for p, x in zip(pasts, (k, v), strict=True)]
    return _Cache(start, *joined)


def _written(
    node: NodeContext, cache: GraphTensor, new: GraphTensor, start: GraphTensor
) -> GraphTensor:
    """A cache [B, heads, length, size] with rows from each sentence's start on replaced."""
    batch = cache.details.plain_dims[0]
    if not isinstance(batch, int):
        raise node.unsupported(f"a cache that keeps its size for {batch} sentences")
    starts = node.reshaped(start, (batch,))
    parts = []
    for i in range(batch):
        own = [node.sliced(x, 0, i, 1) for x in (cache, new)]
        first = node.reshaped(node.sliced(starts, 0, i, 1), ())
        parts.append(node.helper("update_slice", *own, first, axes=(2,)))
    return parts[0] if batch == 1 else node.helper("concat", *parts, axis=0)


def _group_masks(node: NodeContext, cache: _Cache, queries: Size) -> list[GraphTensor]:
    """Every query sees the keys up to its own, of these the last `local_window_size`."""
    total = cache.keys.details.plain_dims[2]
    masks = []
    if node.has(10):
        masks.append(node.tensor(10))
    window = node.attr_int("local_window_size", -1)
    own = positions(node, queries, 2, 4, cache.start_with(node, 4))
    keys = positions(node, total, 3, 4)
    if queries != 1 or isinstance(cache.start, GraphTensor):
        masks.append(node.helper("le", keys, own))
    if window > 0:
        first = node.helper("sub", own, node.constant(window, S64))
        masks.append(node.helper("gt", keys, first))
    return masks


HANDLERS: dict[str, Handler] = {"com.microsoft::GroupQueryAttention": _group_query}
