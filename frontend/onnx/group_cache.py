"""The keys and values that GroupQueryAttention reads and writes: growing caches, buffers, and windows of the last keys.

A buffer keeps its size, and its first keys count; each sentence has its own length. A windowed buffer holds the
last keys only (`sliding_window_cache`): after T keys the last L(T) of them, from row 0 on, where G = C - W + 1 rows are
given up at once when the C rows are full (ONNX Runtime's description of the operator).
"""

from __future__ import annotations

from ...base.dims import Size
from ...base.dtypes import S64
from ...base.records import dataclass
from ...base.size_limits import at_least
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.indexing import dynamic_size, positions
from ..correspondence.compositions.movement import broadcast_to
from ..op_builder import OpBuilder
from .scope import NodeContext

ROWS = 16
"""The input that says how many rows of a chunk count, the others being padding."""

_FAR = 1 << 62


@dataclass(frozen=True)
class Cache:
    """The cache that queries read: keys, values and key positions, s64 [B or 1, 1, 1, keys]; `present`: the new cache.

    `start` is the position of the first query: a number, a dynamic size, or s64 [B, 1].
    """

    start: Size | GraphTensor
    keys: GraphTensor
    values: GraphTensor
    positions: GraphTensor
    present: tuple[GraphTensor, GraphTensor]

    def positions_of(self, node: OpBuilder, queries: Size) -> GraphTensor:
        """Return the positions of the queries, s64 [B or 1, 1, queries, 1]."""
        start = self.start
        if isinstance(start, GraphTensor):
            start = node.reshaped(start, (start.details.plain_dims[0], 1, 1, 1))
        return positions(node, queries, 2, 4, start)


def is_windowed(node: NodeContext) -> bool:
    """Return whether the cache holds the last keys only."""
    return bool(node.attr_int("sliding_window_cache", 0)) and node.has(3)


def start_of(node: NodeContext, batch: Size, queries: Size) -> Size | GraphTensor:
    """Return the position of the first query: the length of the past, unless each sentence of the cache has its
    own length."""
    if not node.has(3):
        if node.has(ROWS):
            raise node.rule("past_key must be given beside query_seqlens", "none")
        return 0
    past = node.details(3).plain_dims[2]
    rows = node.converted(node.tensor(ROWS), S64) if node.has(ROWS) else _sizes(node, queries)
    starts = node.helper("max", node.helper("sub", _ends(node), rows), node.constant(0, S64))
    if is_windowed(node):
        return node.reshaped(starts, (batch, 1))
    length = positions(node, 1, 0, 1, past)
    if not _is_buffer(node):
        if node.has(ROWS):
            _require(node, node.helper("le", starts, length), f"must fit the {past} past keys")
            return node.reshaped(starts, (batch, 1))
        rule = f"must be the number of keys less one, {past + queries} - 1, for every sentence"
        _require(node, node.helper("eq", starts, length), rule)
        return past
    last = node.helper("add", starts, _sizes(node, queries))
    fits = node.helper("le", last, length)
    _require(node, fits, f"must be less than the length of the cache, {past}")
    return node.reshaped(starts, (batch, 1))


def cached(node: NodeContext, start: Size | GraphTensor, k: GraphTensor, v: GraphTensor) -> Cache:
    """Return the cache with the new keys and values, [B, heads, length, size]."""
    for index, new in ((3, k), (4, v)) if node.has(3) else ():
        if (
            node.details(index).plain_dims[3] != new.details.plain_dims[3]
        ):  # a name becomes the number
            both = f"{node.details(index)} and {new.details}"
            raise node.rule("caches must be as wide as the heads", both)
    if is_windowed(node):
        return _windowed(node, start, k, v)
    keys, values = k, v
    if node.has(3):
        pasts = node.tensor(3), node.tensor(4)
        keys, values = (_kept(node, p, x, start) for p, x in zip(pasts, (k, v), strict=True))
    at = positions(node, keys.details.plain_dims[2], 3, 4)
    return Cache(start, keys, values, at, (keys, values))


def _kept(
    node: NodeContext, past: GraphTensor, new: GraphTensor, start: Size | GraphTensor
) -> GraphTensor:
    """The past with new rows: behind it, or from each sentence's start on."""
    grows = not isinstance(start, GraphTensor) or not _is_buffer(node)
    whole = node.helper("concat", past, new, axis=2) if grows else past
    return _written(node, whole, new, start) if isinstance(start, GraphTensor) else whole


def _written(
    node: NodeContext, cache: GraphTensor, new: GraphTensor, start: GraphTensor
) -> GraphTensor:
    """A cache [B, heads, length, size] with rows from each sentence's start on replaced."""
    batch, _, length, _ = cache.details.plain_dims
    if not isinstance(batch, int):  # every row is looked up, of the new ones or of the cache
        here = node.helper("sub", positions(node, length, 1, 2), start)
        rows = _rows_at(node, new, here)
        count = _sizes(node, new.details.plain_dims[2], 2)
        inside = node.helper(
            "and", node.helper("ge", here, node.constant(0, S64)), node.helper("lt", here, count)
        )
        return node.make("select", node.reshaped(inside, (batch, 1, length, 1)), rows, cache)
    starts = node.reshaped(start, (batch,))
    parts = []
    for i in range(batch):
        own = [node.sliced(x, 0, i, 1) for x in (cache, new)]
        first = node.reshaped(node.sliced(starts, 0, i, 1), ())
        parts.append(node.helper("update_slice", *own, first, axes=(2,)))
    return parts[0] if batch == 1 else node.helper("concat", *parts, axis=0)


def _windowed(
    node: NodeContext, start: Size | GraphTensor, k: GraphTensor, v: GraphTensor
) -> Cache:
    """Update a cache of the last keys: queries read its rows and the new ones, and the last of both are kept."""
    pasts = node.tensor(3), node.tensor(4)
    batch, _, capacity, _ = pasts[0].details.plain_dims
    window = node.attr_int("local_window_size", -1)
    if not (window > 0 and at_least(capacity, window)):
        rule = f"local_window_size must be in [1, {capacity}], the capacity of the windowed cache"
        raise node.rule(rule, str(window))
    assert isinstance(start, GraphTensor)
    ends = node.reshaped(_ends(node), (batch, 1))
    before, after = (_resident(node, n, capacity, window) for n in (start, ends))
    first = node.helper("sub", start, before)
    row = positions(node, capacity, 1, 2)
    counts = node.helper("lt", row, before)
    old = node.make("select", counts, node.helper("add", row, first), node.constant(_FAR, S64))
    new = positions(node, k.details.plain_dims[2], 1, 2, start)
    at = node.helper("concat", old, new, axis=1)
    keys, values = (node.helper("concat", p, x, axis=2) for p, x in zip(pasts, (k, v), strict=True))
    kept = node.helper("add", row, node.helper("sub", ends, after))
    is_new = node.helper("ge", kept, start)
    behind = node.helper("add", node.helper("sub", kept, start), dynamic_size(node, capacity))
    rows = node.make("select", is_new, behind, node.helper("sub", kept, first))
    present = _rows_at(node, keys, rows), _rows_at(node, values, rows)
    at = node.reshaped(at, (batch, 1, 1, at.details.plain_dims[1]))
    return Cache(start, keys, values, at, present)


def _resident(node: NodeContext, count: GraphTensor, capacity: Size, window: int) -> GraphTensor:
    """Return how many of `count` keys a windowed cache holds."""
    given_up = dynamic_size(node, capacity - window + 1)
    over = node.helper("sub", count, dynamic_size(node, capacity))
    over = node.helper("max", over, node.constant(0, S64))
    times = node.helper("add", over, dynamic_size(node, capacity - window))
    times = node.helper("div", times, given_up, rounding="floor")
    return node.helper("sub", count, node.helper("mul", times, given_up))


def _rows_at(node: NodeContext, x: GraphTensor, rows: GraphTensor) -> GraphTensor:
    """Rows [B, n] of x [B, heads, length, size]; those out of range are the nearest."""
    batch, heads, _, size = x.details.plain_dims
    count = rows.details.plain_dims[1]
    index = node.reshaped(rows, (batch, 1, count, 1))
    return node.helper(
        "gather_elements", x, broadcast_to(node, index, (batch, heads, count, size)), axis=2
    )


def _ends(node: NodeContext) -> GraphTensor:
    """The number of keys of each sentence after the step, s64 [B]."""
    return node.helper("add", node.converted(node.tensor(5), S64), node.constant(1, S64))


def _sizes(node: NodeContext, size: Size, rank: int = 1) -> GraphTensor:
    """A size as s64, with `rank` axes."""
    return positions(node, 1, 0, rank, size)


def _require(node: NodeContext, fits: GraphTensor, rule: str) -> None:
    whole = node.helper("reduce_all", fits, axes=(0,), keep_dims=False)
    node.scope.require(whole, f"GroupQueryAttention: '{node.key_of(5)}' {rule}")


def _is_buffer(node: NodeContext) -> bool:
    """Return whether the file declares that the cache keeps its size: a buffer of which the first keys count."""
    names = (node.node.input[3], node.node.output[1] if node.wants(1) else "")
    past, present = (node.scope.written_shapes.get(str(name)) for name in names)
    return past is not None and past == present
