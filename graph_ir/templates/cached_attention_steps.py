"""The steps of attention to a cache: scores, online softmax, results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from ...base.dtypes import F32
from ...base.records import dataclass
from ...targets.isa import Target
from ...targets.microkernels import f32_kernel
from ...tensor_ir import builder as t
from ...tensor_ir.builder import Value
from ...tensor_ir.nodes import Buffer, Expr, Prefetch
from ..nest.lower import Lowering
from ..nest.packing import pack_panels
from ..nest.position import Position
from ..nest.problem import View, matmul
from ..nest.tasks import ceil_div
from ..schedule.matmul_steps import inner_nest
from ..schedule.matmul_tile import pick_tile
from .running_softmax import RunningSoftmax

MAX_TOKENS, MIN_TOKENS = 128, 8
"""Bounds of the new tokens of a block."""

ROWS, RESULT_BYTES = 256, 1 << 19
"""Rows of a block, new tokens times heads that share keys, that pay for packing these; bytes of their results."""

KEYS = 256
"""Upper bound of the keys of a block."""

DOT_KEYS, DOT_QUERIES = 4, 4
"""Keys and queries whose scores are summed at once."""


@dataclass(frozen=True)
class CachedProblem:
    """Sizes and the parameters, all flat; `scales` are those of keys and values of s8, with their groups in a row.

    `work`: results, maxima and totals of the parts of the keys of each token (`attention_workspace`).
    """

    batch: Value
    tokens: Value
    heads: int
    kv_heads: int
    room: Value
    key_size: int
    value_size: int
    scale: float
    cap: float
    window: int
    q: Buffer
    keys: Buffer
    values: Buffer
    lengths: Buffer
    scales: tuple[tuple[Buffer, int], ...]
    y: Buffer
    work: tuple[Buffer, ...] = ()

    @property
    def params(self) -> tuple[Buffer, ...]:
        """Each once, in order."""
        scales = (buffer for buffer, _ in self.scales)
        given = dict.fromkeys((self.q, self.keys, self.values, self.lengths, *scales))
        return *given, self.y, *self.work

    @property
    def group(self) -> int:
        """Query heads that share keys."""
        return self.heads // self.kv_heads

    @property
    def block_tokens(self) -> int:
        """New tokens of a block."""
        fitting = RESULT_BYTES // (4 * self.group * self.value_size)
        return max(MIN_TOKENS, min(MAX_TOKENS, ROWS // self.group, fitting))


@dataclass(frozen=True)
class Rows:
    """Queries that are multiplied at once: `count` of them from number `query` on, `apart` from each to the next.

    `state`: the first of them in the buffers of maxima and totals. `seen`: (first key, end) of query i.
    """

    count: int | Expr
    query: Expr
    apart: int
    state: Expr
    seen: Callable[[Expr], tuple[Expr | None, Expr]]


@dataclass(frozen=True)
class Keys:
    """A block of `count` keys from key `begin` on and their values in f32, with axes k and n.

    Nobody sees the first `unseen` panels of keys.
    """

    begin: Expr
    count: Expr
    keys: View
    values: View
    unseen: Expr


def key_block(p: CachedProblem, target: Target) -> int:
    """Return the keys of a block: whole panels."""
    width = pick_tile(p.block_tokens, KEYS, target, f32_kernel(target)).columns(target)
    return KEYS // width * width


class Steps:
    """The steps of queries of one sequence and head of keys, `pair`."""

    def __init__(self, b: t.LoopBuilder, p: CachedProblem, target: Target, pair: Expr) -> None:
        self.b, self.p, self.target, self.pair = b, p, target, pair
        self.kernel, self.lanes = f32_kernel(target), target.lanes(F32)
        self.tile = pick_tile(p.block_tokens, KEYS, target, self.kernel)
        self.width = self.tile.columns(target)
        self.step = key_block(p, target)

    def key_blocks(self, blocks: tuple[Expr, Expr], end: Expr, low: Expr | None) -> Iterator[Keys]:
        """Yield the blocks of keys up to key `end`, in a loop; keys in front of `low` are not seen."""
        b, p = self.b, self.p
        key_scale, value_scale = p.scales or (None, None)
        with b.loop("key_block", *blocks) as number:
            begin = b.let("begin", number * self.step)
            n = b.let("keys_of_block", t.minimum(end - begin, self.step))
            keys = self._in_f32(p.keys, "nk", key_scale, begin, n)
            values = self._in_f32(p.values, "kn", value_scale, begin, n)
            unseen: Expr = t.ZERO
            if low is not None:
                unseen = b.let("unseen", t.maximum(low - begin, 0) // self.width)
            yield Keys(begin, n, keys, values, unseen)

    def _in_f32(
        self, source: Buffer, axes: str, scale: tuple[Buffer, int] | None, begin: Expr, n: Expr
    ) -> View:
        """Return `n` rows in f32, where they lie or converted; `axes`: that of rows, that of their elements."""
        b, row = self.b, self.pair * self.p.room + begin
        size = self.p.key_size if source is self.p.keys else self.p.value_size
        strides = dict(zip(axes, (size, 1), strict=True))
        if source.dtype == F32:
            return View(source, strides, base=b.let("at", row * size))
        local = b.allocate(f"{source.name}_block", F32, (self.step * size,))
        groups = scale[1] if scale else 1
        with b.loop("key", 0, n) as key, b.loop("part", 0, groups) as part:
            offset = b.let("offset", key * size + part * (size // groups))
            factor = b.let("factor", scale[0][(row + key) * groups + part]) if scale else None
            with b.loop("i", 0, size // groups, "vector") as i:
                value = t.cast(source[row * size + (offset + i)], F32)
                b.store(local, (offset + i,), value if factor is None else value * factor)
        return View(local, strides)

    def in_panels(self, keys: Keys) -> Keys:
        """Copy the values of the keys that somebody sees into panels; return the block with these.

        Rows of a cache are often 1 or 4 KB apart and share a few sets of L1, from which tiles of rows then miss.
        """
        b, p = self.b, self.p
        tile = pick_tile(p.block_tokens, p.value_size, self.target, self.kernel)
        width = tile.columns(self.target)
        size = self.step * width
        packed = b.allocate("packed_values", F32, (size * -(-p.value_size // width),))
        rows = keys.unseen * self.width, keys.count
        b.emit(*pack_panels(keys.values, packed, self.step, p.value_size, width, self.lanes, rows))
        return replace(keys, values=View(packed, {"k": width, "n": 1}, {"n": (width, size)}))

    def dots(self, rows: Rows, keys: Keys, panel: Buffer) -> None:
        """Leave the scores of a few queries in the panel, a sum along each key that is seen."""
        b, p, count, buffer = self.b, self.p, rows.count, keys.keys.buffer
        first = rows.query * p.key_size
        assert isinstance(count, int)
        lanes = math.gcd(p.key_size, self.lanes)
        at_once = DOT_QUERIES if self.target.table.registers >= 32 else DOT_QUERIES // 2
        with b.loop("key", keys.unseen * self.width, keys.count, step=DOT_KEYS) as key:
            # Those behind the last key are the last again: nobody sees their scores.
            numbers = [t.minimum(key + i, keys.count - 1) for i in range(DOT_KEYS)]
            at = [b.let("at", keys.keys.base + number * p.key_size) for number in numbers]
            for start in range(0, count, at_once):
                own = range(start, min(start + at_once, count))
                sums = b.allocate("sums", F32, (len(own) * DOT_KEYS, lanes))
                for i in range(sums.shape[0]):
                    b.store(sums, (i, 0), t.const(0.0, F32, lanes))
                with b.loop("d", 0, p.key_size, step=lanes) as d:
                    if not start and buffer is p.keys:
                        self._fetch(keys, key, d, lanes)
                    k = [b.let("k", t.load(buffer, (one + d,), lanes)) for one in at]
                    for r, query in enumerate(own):
                        element = d + query * (rows.apart * p.key_size)
                        q = b.let("q", t.load(p.q, (first + element,), lanes))
                        for i in range(DOT_KEYS):
                            index = r * DOT_KEYS + i, 0
                            b.store(sums, index, self._fma(q, k[i], t.load(sums, index, lanes)))
                for r, query in enumerate(own):
                    for i in range(DOT_KEYS):
                        sum_ = t.load(sums, (r * DOT_KEYS + i, 0), lanes)
                        b.store(panel, (key + (query * self.step + i),), t.call("reduce_add", sum_))

    def _fetch(self, keys: Keys, key: Expr, d: Expr, lanes: int) -> None:
        """Hints for a share of the next keys, and of the values of these, which are read after the scores of a block.

        Each line once: hints wait for the same buffers as loads do.
        """
        p, ahead = self.p, self.target.machine.keys_ahead
        hints = [(p.values, p.value_size, keys.values.base, 0, 2)]
        hints += [(p.keys, p.key_size, keys.keys.base, ahead, 1)] if ahead else []
        for buffer, size, base, distance, level in hints:
            first = base + ((key + distance) * size + d * (DOT_KEYS * size) // p.key_size)
            of_step = math.ceil(DOT_KEYS * size * lanes / p.key_size)
            for at in range(0, of_step, self.target.machine.cache_line // F32.size):
                self.b.emit(Prefetch(t.slice_of(buffer, (first + at,)), level))

    def _fma(self, x: Expr, y: Expr, total: Expr) -> Expr:
        return t.fma(x, y, total) if self.target.table.has_fma else total + x * y

    def multiply(self, rows: Rows, packed: Buffer, keys: Keys, panel: Buffer) -> None:
        """Leave the scores of many queries in the panel, of whole panels of keys."""
        p, width = self.p, self.width
        views = (
            View(p.q, {"m": rows.apart * p.key_size, "k": 1}, base=rows.query * p.key_size),
            View(packed, {"k": width, "n": 1}, {"n": (width, p.key_size * width)}),
            View(panel, {"m": self.step, "n": 1}),
        )
        nest, at = self._matmul("scores", rows, (self.step, p.key_size), views)
        panels = ceil_div(keys.count, width)
        self.b.emit(*nest.whole_panels(at, width, keys.unseen, panels))

    def softmax(self, rows: Rows, running: RunningSoftmax, panel: Buffer, keys: Keys) -> None:
        """Replace scores by exponentials, and scale what was summed before to the new maximum."""
        b = self.b
        start = b.let("start", keys.unseen * self.width)
        columns = b.let("columns", ceil_div(keys.count, self.lanes) * self.lanes)
        with b.loop("row", 0, rows.count) as row:
            low, end = rows.seen(row)
            below = b.let("below", low - keys.begin) if low is not None else None
            above, at = b.let("above", end - keys.begin), b.let("at", row * self.step)

            def score(column: Expr, element: Expr) -> Expr:
                found = b.let("score", self._limited(element * self.p.scale))
                is_seen: Expr = column < above
                if below is not None:
                    is_seen = is_seen & (column >= below)
                return t.select(is_seen, found, -math.inf)

            own = b.let("query", rows.state + row)
            running.add(own, panel, at, (start, columns), score)

    def _limited(self, score: Expr) -> Expr:
        cap = self.p.cap
        return t.call("tanh", score * (1 / cap)) * cap if cap else score

    def add_values(self, rows: Rows, running: RunningSoftmax, panel: Buffer, keys: Keys) -> None:
        """Add exponentials times values to the results."""
        size, first = self.p.value_size, keys.unseen
        result = View(running.result, {"m": size, "n": 1}, base=rows.state * size)
        views = View(panel, {"m": self.step, "k": 1}), keys.values, result
        nest, at = self._matmul("result", rows, (size, self.step), views)
        seen = at.enter("k", first, self.width, keys.count - first * self.width)
        self.b.emit(nest.task(0, seen.reduced(False, True)))

    def _matmul(
        self, name: str, rows: Rows, sizes: tuple[int, int], views: tuple[View, View, View]
    ) -> tuple[Lowering, Position]:
        """Return the matmul `name` of sizes n and k, and the position of the rows in it."""
        most = rows.count if isinstance(rows.count, int) else self.p.block_tokens
        tile = (
            self.tile if name == "scores" else pick_tile(most, sizes[0], self.target, self.kernel)
        )
        problem = matmul((), (most, *sizes), views, self.kernel, None)
        nest = Lowering(inner_nest(name, problem, tile, self.target, exact=True), self.target)
        return nest, Position.outermost(problem).enter("m", t.ZERO, 1, rows.count)

    def finish(self, rows: Rows, running: RunningSoftmax) -> None:
        """Store the results of rows divided by their totals."""
        b, p = self.b, self.p

        def store(row: Expr, i: Expr, value: Expr) -> None:
            b.store(p.y, ((rows.query + row * rows.apart) * p.value_size + i,), value)

        running.finish(rows.count, store, rows.state)
