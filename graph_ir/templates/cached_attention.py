"""Loop nest of attention to a cache: blocks of keys that queries of a head share, with an online softmax.

    for each sequence, head of keys and block of new tokens (parallel):
      for each block of keys that one of them sees:        none above the diagonal, none in front of the window
        few tokens      scores = queries of one token x keys, read where they lie, along each key
        many tokens     keys and values become panels, once for all queries that share them; scores = queries x panel
        for each query: the new maximum; exponentials; result and total times exp(old maximum - new maximum)
        result += exponentials x values
      y = result / total

The keys of a few tokens are split into at most `PARTS` parts, which threads share; then the parts are joined as blocks
are. Keys and values that are not f32 are converted block by block. Blocks begin at multiples of their size, so that
sums do not depend on how tokens are split into calls. After Dao et al., FlashAttention (arXiv 2205.14135), and Ainslie
et al., GQA (arXiv 2305.13245).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...base.dtypes import F32
from ...targets.isa import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr, Function, LoopKind, Var
from ..nest.nest import Sharing
from ..nest.packing import pack_panels
from ..nest.tasks import ceil_div
from ..schedule.workspaces import FEW, PARTS
from .cached_attention_steps import CachedProblem, Rows, Steps, key_block
from .running_softmax import RunningSoftmax, finite


def cached_attention_function(
    name: str, problem: CachedProblem, target: Target, sharing: Sharing, note: str
) -> Function:
    """Return the function of `problem.params`."""
    b = t.LoopBuilder(buffer.name for buffer in problem.params)
    nest = _Nest(b, problem, target, sharing)
    with b.when(t.as_expr(problem.tokens) <= FEW):
        nest.few()
    with b.otherwise():
        nest.many()
    return b.function(name, problem.params, note)


class _Nest:
    """The loops over sequences, heads of keys and tokens, which threads share."""

    def __init__(
        self, b: t.LoopBuilder, p: CachedProblem, target: Target, sharing: Sharing
    ) -> None:
        self.b, self.p, self.target, self.sharing = b, p, target, sharing
        self.pairs = t.as_expr(p.kv_heads) * p.batch

    def few(self) -> None:
        """Parts of the keys of each token and head of keys, then their results together."""
        b, p = self.b, self.p
        step = key_block(p, self.target)
        parts = t.minimum(ceil_div(t.as_expr(p.room), t.as_expr(step)), PARTS)
        queries = self.pairs * p.tokens

        def block(query: Expr) -> _Block:
            first = b.let("first", query % t.as_expr(p.tokens))
            return _Block(b, p, self.target, b.let("pair", query // t.as_expr(p.tokens)), first)

        with self._tasks(queries * parts) as task:
            query = b.let("query", task // parts)
            block(query).part(query, b.let("part", task % parts))
        with b.loop("query", 0, queries) as query:
            block(query).joined(query)

    def many(self) -> None:
        """Blocks of tokens of each head of keys."""
        b, p = self.b, self.p
        blocks = ceil_div(t.as_expr(p.tokens), p.block_tokens)
        with self._tasks(blocks * self.pairs) as task:
            first = b.let("first", task % blocks * p.block_tokens)
            _Block(b, p, self.target, b.let("pair", task // blocks), first).many()

    @contextmanager
    def _tasks(self, total: Expr) -> Iterator[Var]:
        """Open a loop over tasks, which threads share where that pays: their number is an expression of sizes, which
        callers of tasks can compute."""
        b, p = self.b, self.p
        chunks: Expr = t.ONE
        if self.sharing.threads > 1:
            # All rows of a cache: how many of them a sequence has is not looked up.
            work = t.as_expr(p.tokens) * p.room * p.batch * (p.heads * (p.key_size + p.value_size))
            chunks = t.select(work >= self.sharing.least, total, 1)
        each = b.let("each", ceil_div(total, t.maximum(chunks, 1)))
        kind: LoopKind = "parallel" if self.sharing.threads > 1 else "serial"
        with (
            b.loop("chunk", 0, chunks, kind) as chunk,
            b.loop("task", chunk * each, t.minimum((chunk + 1) * each, total)) as task,
        ):
            yield task


class _Block(Steps):
    """A block of tokens, from `first` on, of a sequence and a head of keys, `pair`."""

    def __init__(
        self, b: t.LoopBuilder, p: CachedProblem, target: Target, pair: Expr, first: Expr
    ) -> None:
        super().__init__(b, p, target, pair)
        self.first, self.sequence = first, b.let("sequence", pair // p.kv_heads)
        self.head = b.let("head", pair % p.kv_heads)
        self.length = b.let("length", t.minimum(p.lengths[self.sequence], p.room))
        self.position = b.let("position", self.length - p.tokens + first)

    def part(self, query: Expr, part: Expr) -> None:
        """Attend to a part of the keys with the queries of one token, number `query` of all."""
        b, p = self.b, self.p
        own = self.position
        low = b.let("low", t.maximum(own + 1 - p.window, 0)) if p.window else None
        begin, end, each = self._parts(low)
        start = b.let("start", begin + part * each)
        with b.when(start < end):
            running = RunningSoftmax(b, p.value_size, *p.work)
            panel = b.allocate("panel", F32, (p.group * self.step,))
            at = b.let("at", (query * PARTS + part) * p.group)
            rows = self._rows(p.group, t.ZERO, 1, at, lambda _: (low, own + 1))
            running.start(p.group, at)
            blocks = start, t.minimum(start + each, end)
            with self._key_blocks(blocks, own + 1) as (key, n):
                keys, values = self.as_f32(key, n)
                unseen = self.first_seen(low, key)
                self.dots(rows, keys, values, unseen, n, panel)
                self.softmax(rows, running, panel, key, unseen, n)
                self.add_values(rows, running, panel, values, unseen, n)

    def joined(self, query: Expr) -> None:
        """Store the results of a token: those of its parts, scaled to the largest maximum."""
        b, p, size = self.b, self.p, self.p.value_size
        low = t.maximum(self.position + 1 - p.window, 0) if p.window else None
        begin, end, each = self._parts(low)
        parts = b.let("used", ceil_div(end - begin, each))
        result, maxima, totals = p.work
        joined = RunningSoftmax.allocate(b, 1, size, F32)
        with b.loop("number", 0, p.group) as number:
            at = b.let("at", query * (PARTS * p.group) + number)
            joined.start(1)
            with b.loop("part", 0, parts) as part:
                new = t.larger(joined.maxima[0], maxima[at + part * p.group])
                b.store(joined.maxima, (0,), new)
            base = b.let("base", finite(joined.maxima[0]))
            with b.loop("part", 0, parts) as part:
                own = b.let("own", at + part * p.group)
                factor = b.let("factor", t.exp_weight(maxima[own] - base))
                b.store(joined.totals, (0,), joined.totals[0] + totals[own] * factor)
                with b.loop("i", 0, size, "vector") as i:
                    value = joined.result[i] + result[own * size + i] * factor
                    b.store(joined.result, (i,), value)
            y = b.let("y_at", self._query(t.ZERO) * size + number * size)
            with b.loop("i", 0, size, "vector") as i:
                b.store(p.y, (y + i,), joined.result[i] / joined.totals[0])

    def _parts(self, low: Expr | None) -> tuple[Expr, Expr, Expr]:
        """Return (first block of the keys of a token, end, blocks of a part).

        They depend on the position of the token alone, so that its bits do not depend on threads.
        """
        b, step = self.b, t.as_expr(self.step)
        begin = t.ZERO if low is None else b.let("first_block", low // self.step)
        end = b.let("end_block", ceil_div(self.position + 1, step))
        return begin, end, b.let("each_part", t.maximum(ceil_div(end - begin, t.as_expr(PARTS)), 1))

    def many(self) -> None:
        """Queries of a head after those of another, for each block of keys."""
        b, p = self.b, self.p
        count = b.let("count", t.minimum(t.as_expr(p.tokens) - self.first, p.block_tokens))
        panel = b.allocate("panel", F32, (p.block_tokens * self.step,))
        packed = b.allocate("packed_keys", F32, (self.step * p.key_size,))
        running = RunningSoftmax.allocate(b, p.group * p.block_tokens, p.value_size, F32)
        running.start(p.group * p.block_tokens)
        low = b.let("low", t.maximum(self.position + 1 - p.window, 0)) if p.window else None

        def rows_of(number: Expr) -> Rows:
            return self._rows(count, number, p.heads, number * p.block_tokens, self._seen)

        end = b.let("end", self.position + count)
        blocks = t.ZERO if low is None else low // self.step, ceil_div(end, t.as_expr(self.step))
        with self._key_blocks(blocks, end) as (begin, n):
            keys, values = self.as_f32(begin, n)
            unseen = self.first_seen(low, begin)
            b.emit(*pack_panels(keys, packed, p.key_size, n, self.width, self.lanes))
            values = self.panels_of(values, unseen, n)
            with b.loop("number", 0, p.group) as number:
                rows = rows_of(number)
                self.multiply(rows, packed, unseen, n, panel)
                self.softmax(rows, running, panel, begin, unseen, n)
                self.add_values(rows, running, panel, values, unseen, n)
        with b.loop("number", 0, p.group) as number:
            self.finish(rows_of(number), running)

    def _query(self, number: Expr) -> Expr:
        """The number of the query of the first token and head `number` of the group."""
        token = self.sequence * self.p.tokens + self.first
        return token * self.p.heads + self.head * self.p.group + number

    def _rows(
        self, count: int | Expr, number: Expr, apart: int, state: Expr,
        seen: Callable[[Expr], tuple[Expr | None, Expr]],
    ) -> Rows:  # fmt: skip
        """Return queries from that of head `number` on, `apart` queries from each to the next."""
        at, sizes = self._query(number), (self.p.key_size, self.p.value_size)
        (q, q_stride), (y, y_stride) = ((at * size, apart * size) for size in sizes)
        return Rows(count, q, q_stride, y, y_stride, state, seen)

    def _seen(self, row: Expr) -> tuple[Expr | None, Expr]:
        """The keys that the query of a token of the block sees."""
        end = self.position + row + 1
        return (t.maximum(end - self.p.window, 0) if self.p.window else None), end

    @contextmanager
    def _key_blocks(self, blocks: tuple[Expr, Expr], end: Expr) -> Iterator[tuple[Var, Var]]:
        """Open a loop over blocks of keys up to key `end`: (first key, number of keys)."""
        with self.b.loop("key_block", *blocks) as number:
            begin = self.b.let("begin", number * self.step)
            yield begin, self.b.let("keys_of_block", t.minimum(end - begin, self.step))
