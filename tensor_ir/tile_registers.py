"""A Brgemm on two-dimensional registers, such as those of AMX: the tile instructions, and the epilogue behind them.

    for each 2 tiles of rows: 2 x 2 sums = 0; for each 64 bytes of k: load 2 tiles of A and 2 of B, 4 multiplications,
    and the epilogue of some of the rows before, a vector at a time; store the sums to a local block

All tiles of a GEMM have one shape, as the shapes of a function share few registers: the last tile of rows starts
early enough to be full, and rows that belong to the tile before it are not stored. The epilogue of a tile runs on the
vector units while the next one is multiplied, in this GEMM or the next of the nest (`pending_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence

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
    Matrices,
    Prefetch,
    Slice,
    Stmt,
    Var,
)
from .pending_rows import PendingRows

MAX_TOGETHER = 2
"""Tiles of rows that are multiplied together: 2 x 2 sums, and as many operands, are 8 registers."""
MIN_STEPS = 4
"""Fewest steps of k beside which the epilogue of the tile before runs. With fewer, sums that are added to other results
took 1.1 to 1.25 times as long as before (ResNet-50 in bytes, Sapphire Rapids, a loaded machine; cause unknown)."""
LATE = 8
"""Rows whose epilogue waits until the next tile is stored: what is stored last can be read only after a while (0.87 of
the time of a 1 x 1 convolution of 256 channels of bytes, on a loaded Sapphire Rapids)."""


def tile_statements(
    g: Brgemm, target: Target, names: Names, pending: PendingRows | None = None
) -> list[Stmt]:
    """Return the statements of a Brgemm with a `multiply` instruction.

    `pending`: the rows that wait before it, and of which its last rows will be; none wait if it is left out.
    """
    if pending is not None:
        return _Tiles(g, target, names, pending).statements()
    alone = pending_rows(g, target, names)
    body = _Tiles(g, target, names, alone).statements()
    if is_direct(g, target):
        return body
    return [*alone.begin(), *body, *(alone.finish(t.ZERO) if may_wait(g, target) else [])]


def may_wait(g: Brgemm, target: Target) -> bool:
    """Return whether rows wait for the next tile: its multiplications take long enough to be worth it."""
    shape = target.table.tiles
    assert shape is not None and isinstance(g.k, int)
    return tile_depth(g.k, g.k_group, shape).steps * g.batch >= MIN_STEPS


def pending_rows(
    g: Brgemm, target: Target, names: Names, captured: Sequence[Var] = ()
) -> PendingRows:
    """Return the rows of a Brgemm that wait for their epilogue."""
    shape = target.table.tiles
    if shape is None or not isinstance(g.k, int):
        raise InternalError(
            f"{g.multiply} needs two-dimensional registers and a k that is a number"
        )
    rows, lanes, halves = MAX_TOGETHER * shape.rows, shape.row_bytes // 4, 1 + may_wait(g, target)
    return PendingRows(g, rows, lanes, names, captured, halves)


def is_direct(g: Brgemm, target: Target) -> bool:
    """Return whether tiles are stored to C: all are full, and no epilogue follows."""
    m, rows, shape = g.m, g.tile_rows, target.table.tiles
    is_full = isinstance(m, int) and isinstance(rows, int) and not m % rows
    whole = shape is not None and not g.n % (shape.row_bytes // 4)
    return is_full and whole and g.epilogue is None


class _Tiles:
    def __init__(self, g: Brgemm, target: Target, names: Names, pending: PendingRows) -> None:
        shape = target.table.tiles
        assert shape is not None and isinstance(g.k, int)
        self.g, self.target, self.names, self.pending = g, target, names, pending
        self.lanes = shape.row_bytes // 4
        self.k = tile_depth(g.k, g.k_group, shape)
        self.columns = -(-g.n // self.lanes)
        self.height = t.as_expr(g.tile_rows)
        self.m = t.as_expr(g.m)
        self.is_direct = is_direct(g, target)
        self.waits = may_wait(g, target)
        self.steps = self.k.steps * g.batch
        highest = g.tile_rows if isinstance(g.tile_rows, int) else shape.rows
        self.early = max(MAX_TOGETHER * highest - LATE, 0)
        self.each = -(-self.early // max(self.steps, 1))
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
        return [*(Allocate(buffer) for buffer in self.registers.values()), *body]

    def _loop(self, pair: Var, end: Expr, first: Var, step: Expr) -> For:
        return For(pair, t.ZERO, end, Block((Let(first, pair * step), *self._rows(first, 2))))

    def _rows(self, first: Expr, number: int) -> list[Stmt]:
        """Return the multiplication and the epilogue of `number` tiles of rows from row `first` on."""
        body: list[Stmt] = []
        starts: list[Expr] = []
        for r in range(number):
            start, begin = Var(self.names.fresh("start")), first + self.height * r
            is_whole = self.g.a.tile > 0
            body.append(Let(start, begin if is_whole else t.minimum(begin, self.m - self.height)))
            starts.append(start)
        body += [self._start(starts, r, v) for r in range(number) for v in range(self.columns)]
        body += self._reduce(starts, first)
        if self.is_direct:
            return [*body, *self._stores_to_c(starts)]
        body.append(other := self.pending.other_half())
        for r, begin in enumerate(starts):
            body += [self._store(r, v, other.var, begin - first) for v in range(self.columns)]
        count = t.minimum(self.height * number, self.m - first)
        kept = self.pending.remember(first, count, other.var)
        if not self.waits:
            return [*body, *kept, *self.pending.finish(t.ZERO)]
        return [*body, *self.pending.finish(t.as_expr(self.early)), *kept]

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
                    row = g.a.of_row(start, g.tile_rows)
                    at = batch * g.a.batch + row + k * (depth * g.k_group)
                    body.append(
                        self._memory("load", left, self._at(g.a, at), self.height, g.a.row, depth)
                    )
                operands = (self._sum(r, v), left, right, self.height, t.as_expr(depth))
                body.append(Invoke(g.multiply, operands))
        step = batch * self.k.steps + k
        return [
            *body,
            *self._prefetch(first, len(starts), step),
            *self._beside(starts, first, step),
        ]

    def _beside(self, starts: list[Expr], first: Expr, step: Expr) -> list[Stmt]:
        """Return what is done beside the multiplications of a step: the epilogue of some rows that wait."""
        if self.is_direct or not self.waits:
            return self._prefetch_c(first, len(starts), step)
        done = step * self.each
        return self.pending.finish(done, t.minimum(done + self.each, self.early))

    def _prefetch_c(self, first: Expr, number: int, step: Expr) -> list[Stmt]:
        """Return hints for the rows of C that are written after the last step, a few in each; local ones are near."""
        g = self.g
        if g.c.buffer.storage == "local":
            return []
        rows = g.tile_rows if isinstance(g.tile_rows, int) else self.lanes
        each = -(-number * rows // self.steps)
        line = self.target.machine.cache_line // g.c.buffer.dtype.size
        return [
            Prefetch(self._at(g.c, (first + step * each + row) * g.c.row + column), 0)
            for row in range(each)
            for column in range(0, self.pending.width, line)
        ]

    def _prefetch(self, first: Expr, number: int, step: Expr) -> list[Stmt]:
        """Return this step's share of the prefetch hints, spread evenly over the steps of all rows."""
        g = self.g
        if not isinstance(g.m, int) or not isinstance(g.tile_rows, int):
            return []
        line = self.target.machine.cache_line // g.b.buffer.dtype.size
        hints: list[Stmt] = []
        for one in g.prefetch:
            per_row = -(-one.elements // g.m)
            per_step = -(-number * g.tile_rows * one.elements // (g.m * self.steps))
            at = first * per_row + step * per_step
            hints += [
                Prefetch(_from(one.address, at + offset)) for offset in range(0, per_step, line)
            ]
        return hints

    def _store(self, r: int, v: int, half: Expr, row: Expr) -> Stmt:
        """Return the store of a tile to the block, from row `row` on."""
        width, lanes = t.as_expr(self.pending.width), t.as_expr(self.lanes)
        operands = (
            self._sum(r, v),
            self.pending.at(half, row, v * self.lanes),
            self.height,
            width,
            lanes,
        )
        return Invoke(f"tile_store_{self.g.accumulator}", operands)

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
