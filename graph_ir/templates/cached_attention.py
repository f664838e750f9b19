"""Loop nest of attention to a cache: blocks of keys that queries of a head share, with an online softmax.

    for each sequence, head of keys and block of new tokens (parallel):
      for each block of keys that one of them sees:        none above the diagonal, none in front of the window
        few tokens      scores = queries of one token x keys, read where they lie, along each key
        many tokens     keys and values become panels, once for all queries that share them; scores = queries x panel
        for each query: the new maximum; exponentials; result and total times exp(old maximum - new maximum)
        result += exponentials x values
      y = result / total

Keys and values that are not f32 are converted block by block. Blocks begin at multiples of their size, so that sums do
not depend on how tokens are split into calls. After Dao et al., FlashAttention (arXiv 2205.14135), and Ainslie et al.,
GQA (arXiv 2305.13245).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...base.dtypes import F32
from ...targets.isa import Target
from ...tensor_ir import builder as t
from ...tensor_ir.builder import Value
from ...tensor_ir.nodes import Expr, Function, Var
from ..nest.nest import Sharing
from ..nest.packing import pack_panels
from ..nest.tasks import ceil_div
from .cached_attention_steps import CachedProblem, Rows, State, Steps

FEW = 8
"""Tokens up to which keys are read where they lie, once for each: sums are those of one token at a time, bit by bit."""


def cached_attention_function(
    name: str, problem: CachedProblem, target: Target, sharing: Sharing, note: str
) -> Function:
    """Return the function of `problem.params`."""
    p = problem
    b = t.LoopBuilder(buffer.name for buffer in p.params)
    blocks = b.let("blocks", ceil_div(t.as_expr(p.tokens), p.block_tokens))
    total = b.let("total", blocks * p.kv_heads * p.batch)
    chunks: Expr = t.ONE
    if sharing.threads > 1:
        # All rows of a cache: how many of them a sequence has is not looked up.
        work = t.as_expr(p.tokens) * p.room * p.batch * (p.heads * (p.key_size + p.value_size))
        chunks = b.let("chunks", t.select(work >= sharing.least, total, 1))
    each = b.let("each", ceil_div(total, t.maximum(chunks, 1)))
    kind = "parallel" if sharing.threads > 1 else "serial"
    with (
        b.loop("chunk", 0, chunks, kind) as chunk,  # type: ignore[arg-type]
        b.loop("task", chunk * each, t.minimum((chunk + 1) * each, total)) as task,
    ):
        pair = b.let("pair", task // blocks)
        _Block(b, p, target, pair, b.let("first", task % blocks * p.block_tokens)).run()
    return b.function(name, p.params, note)


class _Block(Steps):
    """A block of tokens, from `first` on, of a sequence and a head of keys, `pair`."""

    def __init__(
        self, b: t.LoopBuilder, p: CachedProblem, target: Target, pair: Expr, first: Expr
    ) -> None:
        super().__init__(b, p, target, pair)
        self.first, self.sequence = first, b.let("sequence", pair // p.kv_heads)
        self.head = b.let("head", pair % p.kv_heads)
        self.length = b.let("length", t.minimum(p.lengths[self.sequence], p.room))
        self.count = b.let("count", t.minimum(t.as_expr(p.tokens) - first, p.block_tokens))
        self.position = b.let("position", self.length - p.tokens + first)

    def run(self) -> None:
        """Emit all of the block."""
        with self.b.when(self.count <= FEW):
            self._few()
        with self.b.otherwise():
            self._many()

    def _few(self) -> None:
        """Queries of one token after those of another."""
        b, p = self.b, self.p
        panel = b.allocate("panel", F32, (p.group * self.step,))
        state = self._state(p.group)
        with b.loop("token", 0, self.count) as token:
            own = b.let("own", self.position + token)
            low = b.let("low", t.maximum(own + 1 - p.window, 0)) if p.window else None
            rows = self._rows(
                p.group,
                self.first + token,
                t.ZERO,
                self._heads_apart,
                t.ZERO,
                lambda _: (low, own + 1),
            )
            self._start(state, p.group)
            with self._key_blocks(low, own + 1) as (begin, n):
                keys, values = self.as_f32(begin, n)
                unseen = self.first_seen(low, begin)
                self.dots(rows, keys, values, unseen, n, panel)
                self.softmax(rows, state, panel, begin, unseen, n)
                self.add_values(rows, state, panel, values, unseen, n)
            self.finish(rows, state)

    def _many(self) -> None:
        """Queries of a head after those of another, for each block of keys."""
        b, p = self.b, self.p
        panel = b.allocate("panel", F32, (p.block_tokens * self.step,))
        packed = b.allocate("packed_keys", F32, (self.step * p.key_size,))
        state = self._state(p.group * p.block_tokens)
        self._start(state, p.group * p.block_tokens)
        low = b.let("low", t.maximum(self.position + 1 - p.window, 0)) if p.window else None

        def rows_of(number: Expr) -> Rows:
            return self._rows(
                self.count,
                self.first,
                number,
                self._tokens_apart,
                number * p.block_tokens,
                self._seen,
            )

        with self._key_blocks(low, self.position + self.count) as (begin, n):
            keys, values = self.as_f32(begin, n)
            unseen = self.first_seen(low, begin)
            for statement in pack_panels(keys, packed, p.key_size, n, self.width, self.lanes):
                b.emit(statement)
            values = self.panels_of(values, unseen, n)
            with b.loop("number", 0, p.group) as number:
                rows = rows_of(number)
                self.multiply(rows, packed, unseen, n, panel)
                self.softmax(rows, state, panel, begin, unseen, n)
                self.add_values(rows, state, panel, values, unseen, n)
        with b.loop("number", 0, p.group) as number:
            self.finish(rows_of(number), state)

    @property
    def _heads_apart(self) -> tuple[int, int]:
        """Distances of the queries and results of one token."""
        return self.p.key_size, self.p.value_size

    @property
    def _tokens_apart(self) -> tuple[int, int]:
        """Distances of the queries and results of one head."""
        return self.p.heads * self.p.key_size, self.p.heads * self.p.value_size

    def _rows(
        self, count: int | Expr, token: Expr, number: Expr, apart: tuple[int, int], state: Expr,
        seen: Callable[[Expr], tuple[Expr | None, Expr]],
    ) -> Rows:  # fmt: skip
        """Return queries from one of `token` and head `number` of the group on."""
        p = self.p
        at = (self.sequence * p.tokens + token) * p.heads + self.head * p.group + number
        return Rows(count, at * p.key_size, apart[0], at * p.value_size, apart[1], state, seen)

    def _seen(self, row: Expr) -> tuple[Expr | None, Expr]:
        """The keys that the query of a token of the block sees."""
        end = self.position + row + 1
        return (t.maximum(end - self.p.window, 0) if self.p.window else None), end

    def _state(self, rows: int) -> State:
        b, size = self.b, self.p.value_size
        return State(
            b.allocate("result", F32, (rows * size,)), b.allocate("most", F32, (rows,)),
            b.allocate("total", F32, (rows,)),
        )  # fmt: skip

    def _start(self, state: State, rows: int) -> None:
        for buffer, value in ((state.result, 0.0), (state.most, -math.inf), (state.total, 0.0)):
            with self.b.loop(
                "i", 0, rows * (self.p.value_size if buffer is state.result else 1), "vector"
            ) as i:
                self.b.store(buffer, (i,), value)

    @contextmanager
    def _key_blocks(self, low: Expr | None, end: Expr) -> Iterator[tuple[Var, Var]]:
        """Open a loop over the blocks of the keys from `low` to `end`: (first key, number of keys)."""
        first: Value = 0 if low is None else low // self.step
        with self.b.loop("key_block", first, ceil_div(end, t.as_expr(self.step))) as number:
            begin = self.b.let("begin", number * self.step)
            yield begin, self.b.let("keys_of_block", t.minimum(end - begin, self.step))
