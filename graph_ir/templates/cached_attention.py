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

from ...base.dtypes import F32
from ...targets.isa import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr, Function
from ..nest.nest import Sharing
from ..nest.packing import pack_panels
from ..nest.tasks import ceil_div, shared_tasks
from ..schedule.workspaces import FEW, PARTS
from .cached_attention_steps import CachedProblem, Rows, Steps, key_block
from .running_softmax import RunningSoftmax, finite


def cached_attention_function(
    name: str, p: CachedProblem, target: Target, sharing: Sharing, note: str
) -> Function:
    """Return the function of `p.params`."""
    b, tokens = t.LoopBuilder(buffer.name for buffer in p.params), t.as_expr(p.tokens)
    pairs, pays = t.as_expr(p.kv_heads) * p.batch, None
    if sharing.threads > 1:
        # All rows of a cache: how many of them a sequence has is not looked up.
        work = tokens * p.room * p.batch * (p.heads * (p.key_size + p.value_size))
        pays = work >= sharing.least

    def block(pair: Expr, first: Expr) -> _Block:
        return _Block(b, p, target, b.let("pair", pair), b.let("first", first))

    with b.when(tokens <= FEW):  # parts of the keys of each token, then their results together
        queries, room = pairs * tokens, ceil_div(t.as_expr(p.room), key_block(p, target))
        parts = t.minimum(room, PARTS)
        with shared_tasks(b, queries * parts, pays) as task:
            query = b.let("query", task // parts)
            block(query // tokens, query % tokens).part(query, b.let("part", task % parts))
        with b.loop("query", 0, queries) as query:
            block(query // tokens, query % tokens).joined(query)
    with b.otherwise():
        blocks = ceil_div(tokens, p.block_tokens)
        with shared_tasks(b, blocks * pairs, pays) as task:
            block(task // blocks, task % blocks * p.block_tokens).many()
    return b.function(name, p.params, note)


class _Block(Steps):
    """A block of tokens, from `first` on, of a sequence and a head of keys, `pair`."""

    def __init__(
        self, b: t.LoopBuilder, p: CachedProblem, target: Target, pair: Expr, first: Expr
    ) -> None:
        super().__init__(b, p, target, pair)
        self.first, self.sequence = first, b.let("sequence", pair // p.kv_heads)
        self.head = b.let("head", pair % p.kv_heads)
        length = b.let("length", t.minimum(p.lengths[self.sequence], p.room))
        self.position = b.let("position", length - p.tokens + first)
        low, _ = self._seen(t.ZERO)
        self.low = None if low is None else b.let("low", low)

    def part(self, query: Expr, part: Expr) -> None:
        """Attend to a part of the keys with the queries of one token, number `query` of all."""
        b, p = self.b, self.p
        begin, end, each = self._parts()
        start = b.let("start", begin + part * each)
        with b.when(start < end):
            running = RunningSoftmax(b, p.value_size, *p.work)
            panel = b.allocate("panel", F32, (p.group * self.step,))
            at = b.let("at", (query * PARTS + part) * p.group)
            own = self.low, self.position + 1
            rows = Rows(p.group, self._query(t.ZERO), 1, at, lambda _: own)
            running.start(p.group, at)
            blocks = start, t.minimum(start + each, end)
            for keys in self.key_blocks(blocks, self.position + 1, self.low):
                self.dots(rows, keys, panel)
                self.softmax(rows, running, panel, keys)
                self.add_values(rows, running, panel, keys)

    def joined(self, query: Expr) -> None:
        """Store the results of a token: those of its parts, scaled to the largest maximum."""
        b, p, size = self.b, self.p, self.p.value_size
        begin, end, each = self._parts()
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
            self.finish(Rows(1, self._query(number), 1, t.ZERO, self._seen), joined)

    def _parts(self) -> tuple[Expr, Expr, Expr]:
        """Return (first block of the keys of a token, end, blocks of a part).

        They depend on the position of the token alone, so that its bits do not depend on threads.
        """
        b, step = self.b, t.as_expr(self.step)
        begin = t.ZERO if self.low is None else b.let("first_block", self.low // self.step)
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

        def rows_of(number: Expr) -> Rows:
            state = number * p.block_tokens
            return Rows(count, self._query(number), p.heads, state, self._seen)

        end = b.let("end", self.position + count)
        begin = t.ZERO if self.low is None else self.low // self.step
        for keys in self.key_blocks((begin, ceil_div(end, self.step)), end, self.low):
            b.emit(*pack_panels(keys.keys, packed, p.key_size, keys.count, self.width, self.lanes))
            in_panels = self.in_panels(keys)
            with b.loop("number", 0, p.group) as number:
                rows = rows_of(number)
                self.multiply(rows, packed, in_panels, panel)
                self.softmax(rows, running, panel, in_panels)
                self.add_values(rows, running, panel, in_panels)
        with b.loop("number", 0, p.group) as number:
            self.finish(rows_of(number), running)

    def _query(self, number: Expr) -> Expr:
        """The number of the query of the first token and head `number` of the group."""
        token = self.sequence * self.p.tokens + self.first
        return token * self.p.heads + self.head * self.p.group + number

    def _seen(self, row: Expr) -> tuple[Expr | None, Expr]:
        """The keys that the query of a token of the block sees."""
        end = self.position + row + 1
        return (t.maximum(end - self.p.window, 0) if self.p.window else None), end
