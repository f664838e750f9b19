"""A Brgemm on two-dimensional registers, such as those of AMX: the tile instructions, and the epilogue behind them.

    for each 2 tiles of rows: 2 x 2 sums = 0; for each 64 bytes of k: load 2 tiles of A and 2 of B, 4 multiplications
    store the sums to a local block; for each of its rows: epilogue, a vector at a time

All tiles of a GEMM have one shape, as the shapes of a function share few registers: the last tile of rows starts
early enough to be full, and rows that belong to the tile before it are not stored. The epilogue runs on the vector
units while the tiles of the next rows are multiplied.
"""

from __future__ import annotations

from dataclasses import replace

from ..base.errors import InternalError
from ..targets.isa import Target, tile_depth
from . import builder as t
from .names import Names
from .nodes import (
    Allocate,
    Block,
    Brgemm,
    Buffer,
    Expr,
    For,
    If,
    Invoke,
    Let,
    Load,
    Matrices,
    Prefetch,
    Slice,
    Stmt,
    Store,
    Var,
)
from .substitution import substitute_expr

MAX_TOGETHER = 2
"""Tiles of rows that are multiplied together: 2 x 2 sums, and as many operands, are 8 registers."""


def tile_statements(g: Brgemm, target: Target, names: Names) -> list[Stmt]:
    """Return the statements of a Brgemm with a `multiply` instruction."""
    return _Tiles(g, target, names).statements()


class _Tiles:
    def __init__(self, g: Brgemm, target: Target, names: Names) -> None:
        shape = target.table.tiles
        if shape is None or not isinstance(g.k, int):
            raise InternalError(
                f"{g.multiply} needs two-dimensional registers and a k that is a number"
            )
        self.g, self.target, self.names = g, target, names
        self.lanes = shape.row_bytes // 4
        self.k = tile_depth(g.k, g.k_group, shape)
        self.columns = -(-g.n // self.lanes)
        self.height = t.as_expr(g.tile_rows)
        self.m = t.as_expr(g.m)
        size = MAX_TOGETHER * shape.rows * self.columns * self.lanes
        self.block = Buffer(names.fresh("block"), g.accumulator, (size,), "local")
        self.registers: dict[str, Buffer] = {}

    def statements(self) -> list[Stmt]:
        """Return loops over two tiles of rows, then the last tile if their number is odd."""
        g = self.g
        if not g.n or g.batch < 1:
            return []
        tiles = (self.m + self.height - 1) // self.height
        first = Var(self.names.fresh("row"))
        two: Expr = self.height * MAX_TOGETHER
        count, pairs = Var(self.names.fresh("tiles")), Var(self.names.fresh("pair"))
        odd = (count - 1) * self.height
        body: list[Stmt] = []
        if isinstance(g.m, int) and isinstance(g.tile_rows, int):
            number = -(-g.m // g.tile_rows)
            if number > 1:
                body.append(self._loop(pairs, t.as_expr(number // 2), first, two))
            if number % 2:
                body += self._rows(t.as_expr((number - 1) * g.tile_rows), 1)
        else:
            last = Var(self.names.fresh("row"))
            alone = Block((Let(last, odd), *self._rows(last, 1)))
            body.append(Let(count, tiles))
            body.append(self._loop(pairs, count // 2, first, two))
            body.append(If(t.equal(count % 2, 1), alone))
        used = [*self.registers.values(), *([] if self.is_direct else [self.block])]
        registers = [Allocate(buffer) for buffer in used]
        return [*registers, *body]

    def _loop(self, pair: Var, end: Expr, first: Var, step: Expr) -> For:
        return For(pair, t.ZERO, end, Block((Let(first, pair * step), *self._rows(first, 2))))

    def _rows(self, first: Expr, number: int) -> list[Stmt]:
        """Return the multiplication and the epilogue of `number` tiles of rows from row `first` on."""
        body: list[Stmt] = []
        starts: list[Expr] = []
        for r in range(number):
            start = Var(self.names.fresh("start"))
            body.append(Let(start, t.minimum(first + self.height * r, self.m - self.height)))
            starts.append(start)
        body += [self._start(starts, r, v) for r in range(number) for v in range(self.columns)]
        body += self._reduce(starts, first)
        if self.is_direct:
            return [*body, *self._stores_to_c(starts)]
        body += [self._store(r, v) for r in range(number) for v in range(self.columns)]
        for r, loaded in enumerate(starts):
            body.append(self._finish(first + self.height * r, loaded, r))
        return body

    @property
    def is_direct(self) -> bool:
        """Return whether tiles are stored to C: all are full, and no epilogue follows."""
        m, rows = self.g.m, self.g.tile_rows
        is_full = isinstance(m, int) and isinstance(rows, int) and not m % rows
        return is_full and not self.g.n % self.lanes and self.g.epilogue is None

    def _stores_to_c(self, starts: list[Expr]) -> list[Stmt]:
        stores: list[Stmt] = []
        for r, start in enumerate(starts):
            for v in range(self.columns):
                at = self._at(self.g.c, start * self.g.c.row + v * self.lanes)
                stores.append(
                    self._memory(
                        "store", self._sum(r, v), at, self.height, self.g.c.row, self.lanes
                    )
                )
        return stores

    def _start(self, starts: list[Expr], r: int, v: int) -> Stmt:
        g, dtype = self.g, self.g.accumulator
        if not g.accumulate:
            return Invoke(f"tile_zero_{dtype}", (self._sum(r, v), self.height))
        old = self._at(g.c, starts[r] * g.c.row + v * self.lanes)
        return self._memory("load", self._sum(r, v), old, self.height, g.c.row, self.lanes)

    def _reduce(self, starts: list[Expr], first: Expr) -> list[Stmt]:
        batch, k = Var(self.names.fresh("batch")), Var(self.names.fresh("k"))
        step = Block(tuple(self._step(starts, first, batch, k)))
        loop: Stmt = For(k, t.ZERO, t.as_expr(self.k.steps), step)
        if self.g.batch == 1:
            return [Let(batch, t.ZERO), loop]
        return [For(batch, t.ZERO, t.as_expr(self.g.batch), loop)]

    def _step(self, starts: list[Expr], first: Expr, batch: Expr, k: Expr) -> list[Stmt]:
        """Return the loads of each operand, once, and the multiplications between them."""
        g, depth, body = self.g, self.k.depth, list[Stmt]()
        for v in range(self.columns):
            at = batch * g.b.batch + k * (t.as_expr(g.b.row) * depth) + v * self.lanes * g.k_group
            right = self._register("right", v, g.b.buffer)
            body.append(
                self._memory(
                    "load", right, self._at(g.b, at), t.as_expr(depth), g.b.row, self.lanes
                )
            )
            for r, start in enumerate(starts):
                left = self._register("left", r, g.a.buffer)
                if not v:
                    at = batch * g.a.batch + start * g.a.row + k * (depth * g.k_group)
                    body.append(
                        self._memory("load", left, self._at(g.a, at), self.height, g.a.row, depth)
                    )
                operands = (self._sum(r, v), left, right, self.height, t.as_expr(depth))
                body.append(Invoke(g.multiply, operands))
        step = batch * self.k.steps + k
        return [
            *body,
            *self._prefetch(first, len(starts), step),
            *self._prefetch_c(first, len(starts), step),
        ]

    def _prefetch_c(self, first: Expr, number: int, step: Expr) -> list[Stmt]:
        """Return hints for the rows of C that are written after the last step, a few in each."""
        g = self.g
        rows = g.tile_rows if isinstance(g.tile_rows, int) else self.lanes
        each = -(-number * rows // (self.k.steps * g.batch))
        line = self.target.machine.cache_line // g.c.buffer.dtype.size
        return [
            Prefetch(self._at(g.c, (first + step * each + row) * g.c.row + column), 0)
            for row in range(each)
            for column in range(0, self._width, line)
        ]

    def _prefetch(self, first: Expr, number: int, step: Expr) -> list[Stmt]:
        """Return this step's share of the prefetch hints, spread evenly over the steps of all rows."""
        g = self.g
        if not isinstance(g.m, int) or not isinstance(g.tile_rows, int):
            return []
        line = self.target.machine.cache_line // g.b.buffer.dtype.size
        hints: list[Stmt] = []
        steps = self.k.steps * g.batch
        for one in g.prefetch:
            per_row = -(-one.elements // g.m)
            per_step = -(-number * g.tile_rows * one.elements // (g.m * steps))
            at = first * per_row + step * per_step
            hints += [
                Prefetch(_from(one.address, at + offset)) for offset in range(0, per_step, line)
            ]
        return hints

    def _store(self, r: int, v: int) -> Stmt:
        at = self.height * (r * self._width) + v * self.lanes
        block = Slice(self.block, (at,))
        operands = (
            self._sum(r, v),
            block,
            self.height,
            t.as_expr(self._width),
            t.as_expr(self.lanes),
        )
        return Invoke(f"tile_store_{self.g.accumulator}", operands)

    def _finish(self, first: Expr, start: Expr, r: int) -> Stmt:
        """Return the epilogue of the rows from `first` on of tile `r`, which begins with row `start`."""
        row = Var(self.names.fresh("finished"))
        end = t.minimum(first + self.height, self.m)
        local = (self.height * r + (row - start)) * self._width
        columns = range(0, self.g.n, self.lanes)
        parts = [self._vector(row, local, v, min(v + self.lanes, self.g.n)) for v in columns]
        return For(row, first, end, Block(tuple(parts)))

    def _vector(self, row: Expr, local: Expr, begin: int, end: int) -> Stmt:
        g, col = self.g, Var(self.names.fresh("col"))
        acc = Var(self.names.fresh("sum"), g.accumulator)
        body: list[Stmt] = [Let(acc, Load(self.block, (local + col,)))]
        value: Expr = acc
        if g.epilogue is not None:
            e = g.epilogue
            known: dict[str, Expr] = {e.row.name: row, e.col.name: col, e.acc.name: acc}
            for let in e.lets:
                var = replace(let.var, name=self.names.fresh(let.var.name))
                body.append(Let(var, substitute_expr(let.value, known)))
                known[let.var.name] = var
            value = substitute_expr(e.value, known)
        target = self._at(g.c, row * g.c.row + col)
        body.append(Store(target.buffer, target.indices, value))
        return For(col, t.as_expr(begin), t.as_expr(end), Block(tuple(body)), "vector")

    @property
    def _width(self) -> int:
        """Return the elements of a row of the block."""
        return self.columns * self.lanes

    def _sum(self, r: int, v: int) -> Slice:
        name = f"sums{r}{v}"
        if name not in self.registers:
            shape = (16 * self.lanes,)
            self.registers[name] = Buffer(
                self.names.fresh(name), self.g.accumulator, shape, "local"
            )
        return t.slice_of(self.registers[name])

    def _register(self, name: str, number: int, operand: Buffer) -> Slice:
        key = f"{name}{number}"
        if key not in self.registers:
            shape = (16 * self.lanes * 4 // operand.dtype.size,)
            self.registers[key] = Buffer(self.names.fresh(key), operand.dtype, shape, "local")
        return t.slice_of(self.registers[key])

    @staticmethod
    def _memory(
        op: str, register: Slice, memory: Slice, rows: Expr, stride: int | Expr, depth: int
    ) -> Stmt:
        """Return a load or a store of a register."""
        operands = (register, memory, rows, t.as_expr(stride), t.as_expr(depth))
        return Invoke(f"tile_{op}_{register.buffer.dtype}", operands)

    @staticmethod
    def _at(operand: Matrices, offset: Expr) -> Slice:
        return _from(operand.address, offset)


def _from(address: Slice, offset: Expr) -> Slice:
    (start,) = address.indices
    return Slice(address.buffer, (start + offset,))
