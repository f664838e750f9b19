"""Turn every Brgemm into register tiles: the microkernel as explicit vector statements.

before   brgemm(C, A, B, m=8, n=16, k=64)
after    for i in range(0, 8, 4): acc[4 x 16] = 0; for k: b = B[k, :]; acc[r, :] = fma(A[i + r, k], b, acc[r, :]) ...
Requires: slices of 1-D buffers. Ensures: no Brgemm; the accumulators are locals indexed by constants, which LLVM keeps
in registers; each element of C is accumulated in an order fixed by the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...base.contraction import multiplied_as
from ...base.dtypes import S32, S64
from ...base.records import dataclass
from ...targets.isa import Target
from .. import builder as t
from ..first_addend import Addend, first_addend
from ..joint_vectors import packed_together
from ..names import Names
from ..nodes import (
    Allocate,
    Block,
    Brgemm,
    Broadcast,
    Buffer,
    Const,
    Expr,
    For,
    Function,
    If,
    Let,
    Load,
    Module,
    Prefetch,
    Slice,
    Stmt,
    Store,
    Var,
)
from ..pending_rows import PendingRows, captured_by
from ..substitution import substitute_expr
from ..tile_registers import may_wait, pending_rows, tile_statements
from ..tiling import k_splits, split_rows, tile_height
from ..visitor import Rewriter, bound_names, map_functions, walk_statements


def expand_brgemm(module: Module, target: Target) -> Module:
    """Expand every Brgemm of every function."""

    def rewrite(function: Function) -> Function:
        if not any(type(s) is Brgemm for s in walk_statements(function.body)):
            return function
        return _Expander(target, Names(bound_names(function))).function(function)

    return map_functions(module, rewrite)


class _Expander(Rewriter):
    def __init__(self, target: Target, names: Names) -> None:
        self.target = target
        self.names = names
        self.pending: dict[int, PendingRows] = {}

    def for_(self, s: For) -> Stmt | tuple[Stmt, ...]:
        """Expand a loop; rows of tile registers wait for their epilogue from one iteration to the next."""
        waiting: list[PendingRows] = []
        for g in walk_statements(s) if s.kind == "serial" else ():
            if type(g) is Brgemm and g.multiply and id(g) not in self.pending:
                captured = captured_by(s, g) if may_wait(g, self.target) else None
                if captured is not None:
                    waiting.append(pending_rows(g, self.target, self.names, captured))
                    self.pending[id(g)] = waiting[-1]
        new = super().for_(s)
        if not waiting:
            return new
        before = [x for rows in waiting for x in rows.begin()]
        after = [x for rows in waiting for x in rows.finish(t.ZERO)]
        return (*before, *(new if isinstance(new, tuple) else (new,)), *after)

    def brgemm(self, s: Brgemm) -> Stmt | tuple[Stmt, ...]:
        tiles: list[Stmt] = []
        if s.multiply:
            pending = self.pending.get(id(s))
            return tuple(tile_statements(s, self.target, self.names, pending))
        assert isinstance(s.m, int) and isinstance(s.tile_rows, int)
        if not s.n:
            return ()
        vectors = -(-s.n_padded // self.target.lanes(s.accumulator))
        for first, count, rows in split_rows(s.m, tile_height(s.m, s.tile_rows, vectors)):
            if count == 1:
                tiles.append(_Tile(s, t.as_expr(first), rows, self.target, self.names).statement())
                continue
            row = Var(self.names.fresh("row"))
            tile = _Tile(s, row, rows, self.target, self.names).statement()
            tiles.append(
                For(row, t.as_expr(first), t.as_expr(first + count * rows), tile, "serial", rows)
            )
        return tuple(tiles)


@dataclass
class _Tile:
    """`rows` x all columns of one Brgemm, from row `row0` on."""

    g: Brgemm
    row0: Expr
    rows: int
    target: Target
    names: Names

    def __post_init__(self) -> None:
        assert isinstance(self.g.m, int) and isinstance(self.g.tile_rows, int)
        self.m, self.tile_rows = self.g.m, self.g.tile_rows
        self.table = self.target.table
        self.dtype = self.g.accumulator
        types = self.g.a.buffer.dtype, self.g.b.buffer.dtype
        self.a_dtype, self.b_dtype = multiplied_as(*types, self.g.k_group)
        self.lanes = self.target.lanes(self.dtype)
        self.vectors = -(-self.g.n // self.lanes)
        # By the width of the panel, not of its remainder, so that equal columns have equal sums.
        self.splits = k_splits(self.tile_rows, -(-self.g.n_padded // self.lanes))
        self.width = self.vectors * self.lanes
        size = self.splits * self.rows * self.width
        self.acc = Buffer(self.names.fresh("acc"), self.dtype, (size,), "local")
        self.steps = -(-self.g.k // self.g.k_group) if isinstance(self.g.k, int) else 1
        self.addend = self._addend()

    def _addend(self) -> Addend | None:
        """Return the initial value of whole vectors of integer accumulators: the bias that all rows share."""
        g = self.g
        if g.epilogue is None or g.accumulate or self.dtype.is_float or g.n % self.lanes:
            return None
        e = g.epilogue
        return first_addend(e.lets, e.value, e.acc, (e.row.name,))

    def statement(self) -> Stmt:
        """The whole tile."""
        body: list[Stmt] = [Allocate(self.acc), *self._start(), *self._reduce()]
        epilogue = self.g.epilogue
        together = 1 if epilogue is None else packed_together(epilogue, self.target)
        for r in range(self.rows):
            for v in range(0, self.vectors, together):
                body.extend(self._finish(r, range(v, min(v + together, self.vectors))))
        return Block(tuple(body))

    def _start(self) -> list[Stmt]:
        zero = t.const(0, self.dtype, self.lanes)
        started = 0 if self.addend is None else self.rows
        first = [self._started(r, v) for r in range(started) for v in range(self.vectors)]
        return first + [
            Store(self.acc, self._acc_index(r, v), zero)
            for r in range(started, self.rows * self.splits)
            for v in range(self.vectors)
        ]

    def _started(self, r: int, v: int) -> Stmt:
        """A vector of sums that starts with what the epilogue would add to it."""
        assert self.addend is not None and self.g.epilogue is not None
        col = Var(self.names.fresh("col"))
        values: dict[str, Expr] = {self.g.epilogue.col.name: col}
        body = self._bound(self.addend.lets, values)
        start = substitute_expr(self.addend.value, values)
        body.append(Store(self.acc, (r * self.width + col,), start))
        begin, end = v * self.lanes, (v + 1) * self.lanes
        return For(col, t.as_expr(begin), t.as_expr(end), Block(tuple(body)), "vector")

    def _bound(self, lets: Sequence[Let], values: dict[str, Expr]) -> list[Stmt]:
        """Copies of bindings under fresh names, which are added to `values`."""
        body: list[Stmt] = []
        for let in lets:
            value = substitute_expr(let.value, values)
            var = replace(let.var, name=self.names.fresh(let.var.name))
            values[let.var.name] = var
            body.append(Let(var, value))
        return body

    def _old_c(self, r: int, v: int) -> Expr:
        return Load(
            self.g.c.buffer,
            self._c_index(r, t.as_expr(v * self.lanes)),
            self.lanes,
            self._active(v, self.g.n),
        )

    def _reduce(self) -> list[Stmt]:
        """Accumulate over the batch and k: a loop over the batch, over k in unrolled steps, then the remainder of k."""
        if self.g.batch < 1:
            return []
        batch = Var(self.names.fresh("batch")) if self.g.batch > 1 else t.as_expr(0)
        # Multiply-adds of one k hide the loop counter; more steps would only take longer to compile.
        unroll = max(self.splits, self.table.k_unroll if self.g.k_group > 1 else 1)
        if not isinstance(self.g.k, int):
            return self._reduce_dynamic(batch, self.g.k, unroll)
        full = self.g.k // self.g.k_group
        whole = full - full % unroll
        body: list[Stmt] = []
        if whole:
            k = Var(self.names.fresh("k"))
            steps = [s for i in range(unroll) for s in self._step(batch, k + i, i)]
            body.append(
                For(k, t.as_expr(0), t.as_expr(whole), Block(tuple(steps)), "serial", unroll)
            )
        for i in range(whole, self.steps):
            body.extend(self._step(batch, t.as_expr(i), i))
        return self._each_batch(batch, body)

    def _each_batch(self, batch: Expr, body: list[Stmt]) -> list[Stmt]:
        if isinstance(batch, Var):
            return [For(batch, t.as_expr(0), t.as_expr(self.g.batch), Block(tuple(body)))]
        return body

    def _reduce_dynamic(self, batch: Expr, depth: Expr, unroll: int) -> list[Stmt]:
        """Accumulate as `_reduce` does for a k that is known at run time; the remainder of the unrolled steps is one k
        at a time."""
        k, whole = Var(self.names.fresh("k")), Var(self.names.fresh("k_whole"))
        steps = [s for i in range(unroll) for s in self._step(batch, k + i, i)]
        rest = [
            If(at < depth, Block(tuple(self._step(batch, at, i))))
            for i, at in enumerate(whole + i for i in range(unroll - 1))
        ]
        even = depth // unroll * unroll
        loop = For(k, t.as_expr(0), whole, Block(tuple(steps)), "serial", unroll)
        return self._each_batch(batch, [Let(whole, even), loop, *rest])

    def _step(self, batch: Expr, k: Expr, number: int) -> list[Stmt]:
        """One k, or group of k: the row of B once, each element of A once, rows x vectors multiply-adds."""
        first = (number % self.splits) * self.rows
        body: list[Stmt] = []
        b_vectors = [self._let(body, f"b{v}", self._b(batch, k, v)) for v in range(self.vectors)]
        for r in range(self.rows):
            a = self._let(body, f"a{r}", self._a(batch, k, r))
            for v, b in enumerate(b_vectors):
                index = self._acc_index(first + r, v)
                old = Load(self.acc, index, self.lanes)
                body.append(Store(self.acc, index, self._multiply_add(a, b, old)))
        return [*body, *self._prefetch(batch * self.steps + k)]

    def _b(self, batch: Expr, k: Expr, v: int) -> Expr:
        """Vector `v` of row (or group of rows) `k` of B, in the type it is multiplied in."""
        g = self.g
        at = k * g.b.row + v * self.lanes * g.k_group
        active = self._active(v, g.n_padded)
        index = self._at(g.b.address, batch * g.b.batch + at)
        value = Load(g.b.buffer, index, self.lanes * g.k_group, active and active * g.k_group)
        return t.cast(value, self.b_dtype)

    def _a(self, batch: Expr, k: Expr, r: int) -> Expr:
        """Element (or group of elements) `k` of row `r` of A in all lanes, in the type it is multiplied in."""
        g = self.g
        row = (self.row0 + r) * g.a.row
        offset = batch * g.a.batch + (row + k * (g.a.col * g.k_group))
        index = self._at(g.a.address, offset)
        if g.k_group == 1:
            return Broadcast(t.cast(Load(g.a.buffer, index), self.a_dtype), self.lanes)
        depth = g.k if isinstance(g.k, int) else 0
        is_last = isinstance(k, Const) and (k.value + 1) * g.k_group > depth
        group = Load(g.a.buffer, index, g.k_group, depth % g.k_group if is_last else None)
        word = t.bitcast(t.cast(group, self.a_dtype), S32)  # one broadcast of the whole group
        return t.bitcast(Broadcast(word, self.lanes), self.a_dtype)

    def _prefetch(self, step: Expr) -> list[Stmt]:
        """Emit this step's share of the prefetch hints, spread evenly over the rows of the tile.

        A step may prefetch a line twice, which costs only a load slot, and these loops have some to spare.
        """
        line = self.target.machine.cache_line // self.g.b.buffer.dtype.size
        hints: list[Stmt] = []
        for one in self.g.prefetch:
            per_row = -(-one.elements // self.m)
            per_step = -(-self.rows * one.elements // (self.m * self.steps * self.g.batch))
            first = self.row0 * per_row + step * per_step
            hints += [
                Prefetch(Slice(one.address.buffer, self._at(one.address, first + at)))
                for at in range(0, per_step, line)
            ]
        return hints

    def _multiply_add(self, a: Expr, b: Expr, acc: Expr) -> Expr:
        """One rounding if the ISA has the instruction; emulating it would cost ten times as much."""
        if self.g.k_group > 1:
            return t.call(f"dot{self.g.k_group}", acc, a, b)
        fused = self.table.has_fma and self.dtype.is_float
        return t.call("fma", a, b, acc) if fused else acc + a * b

    def _finish(self, r: int, vectors: range) -> list[Stmt]:
        """Sum the accumulator sets of neighboring vectors, add the old C, run the epilogue, store to C.

        What was summed before is added last: the sum of this block of k starts small, and rounds as small numbers do.
        """
        body: list[Stmt] = []
        for v in vectors:
            total = self._total(r, v)
            if self.g.epilogue is None:
                index = self._c_index(r, t.as_expr(v * self.lanes))
                body.append(Store(self.g.c.buffer, index, total, self._active(v, self.g.n)))
            elif self.splits > 1 or self.g.accumulate:
                body.append(Store(self.acc, self._acc_index(r, v), total))
        return body if self.g.epilogue is None else [*body, self._epilogue(r, vectors)]

    def _total(self, r: int, v: int) -> Expr:
        total: Expr = Load(self.acc, self._acc_index(r, v), self.lanes)
        for split in range(1, self.splits):
            total = total + Load(self.acc, self._acc_index(split * self.rows + r, v), self.lanes)
        return total + self._old_c(r, v) if self.g.accumulate else total

    def _epilogue(self, r: int, vectors: range) -> Stmt:
        """The epilogue of neighboring vectors as a vector loop, which `vectorize` turns into vector statements."""
        epilogue = self.g.epilogue
        assert epilogue is not None
        begin, end = vectors[0] * self.lanes, min((vectors[-1] + 1) * self.lanes, self.g.n)
        col, acc = Var(self.names.fresh("col")), Var(self.names.fresh("sum"), self.dtype)
        values: dict[str, Expr] = {
            epilogue.row.name: self.row0 + r, epilogue.col.name: col, epilogue.acc.name: acc,
        }  # fmt: skip
        body: list[Stmt] = [Let(acc, Load(self.acc, (r * self.width + col,)))]
        lets = epilogue.lets if self.addend is None else self.addend.rest
        body.extend(self._bound(lets, values))
        body.append(
            Store(self.g.c.buffer, self._c_index(r, col), substitute_expr(epilogue.value, values))
        )
        return For(col, t.as_expr(begin), t.as_expr(end), Block(tuple(body)), "vector")

    def _let(self, body: list[Stmt], name: str, value: Expr) -> Expr:
        var = Var(self.names.fresh(name), value.dtype, value.lanes)
        body.append(Let(var, value))
        return var

    def _active(self, v: int, columns: int) -> int | None:
        rest = columns - v * self.lanes
        return rest if rest < self.lanes else None

    def _acc_index(self, r: int, v: int) -> tuple[Expr, ...]:
        return (Const(r * self.width + v * self.lanes, S64),)

    def _c_index(self, r: int, column: Expr) -> tuple[Expr, ...]:
        return self._at(self.g.c.address, (self.row0 + r) * self.g.c.row + column)

    @staticmethod
    def _at(origin: Slice, offset: Expr) -> tuple[Expr, ...]:
        (start,) = origin.indices
        return (start + offset,)
