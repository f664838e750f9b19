"""Rows of sums that wait in a local block for their epilogue.

The epilogue of a tile runs on the vector units while tile registers multiply the next tile:

    count = 0
    for each tile of the nest:
        for each step of k: multiplications of this tile; epilogue of some of the `count` rows that wait
        store the sums to the block; first, count, n0, ... = the rows of this tile and the loop variables they depend on
    epilogue of the last rows
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..base.dtypes import S64
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
    ParallelInvoke,
    Slice,
    Stmt,
    Store,
    Var,
)
from .substitution import substitute_expr
from .visitor import Node, bound_names, children, vars_in, walk

FIRST, COUNT, HALF = 0, 1, 2
"""Offsets in the state of the first row that waits, the number of rows, and the offset of their half of the block;
loop variables follow."""


class PendingRows:
    """The rows of a Brgemm that wait: at most `rows`, of `lanes` columns or a multiple.

    `captured`: variables of loops around the Brgemm that its epilogue and the address of C depend on. `halves`: 1
    where no row waits while the next are stored.
    """

    def __init__(
        self,
        g: Brgemm,
        rows: int,
        lanes: int,
        names: Names,
        captured: Sequence[Var] = (),
        halves: int = 2,
    ) -> None:
        self.halves = halves
        self.g, self.lanes, self.names, self.captured = g, lanes, names, captured
        self.width = -(-g.n // lanes) * lanes
        is_whole = isinstance(g.m, int) and isinstance(g.tile_rows, int) and not g.m % g.tile_rows
        # The last tile of rows starts early enough to be full: its first rows lie before those that wait.
        self.before = 0 if is_whole else rows // 2
        self.half = (self.before + rows) * self.width
        self.block = Buffer(names.fresh("block"), g.accumulator, (halves * self.half,), "local")
        self.state = Buffer(names.fresh("waiting"), S64, (3 + len(captured),), "local")

    def begin(self) -> list[Stmt]:
        """Return the statements before all tiles: no row waits."""
        numbers = range(self.state.shape[0])
        return [
            Allocate(self.block),
            Allocate(self.state),
            *(self._set(number, t.ZERO) for number in numbers),
        ]

    def other_half(self) -> Let:
        """Return the offset of the half of the block in which no row waits, of a block that has two."""
        half = Load(self.state, (t.as_expr(HALF),))
        other = t.ZERO if self.halves == 1 else self.half - half
        return Let(Var(self.names.fresh("half")), other)

    def at(self, half: Expr, row: Expr, column: int) -> Slice:
        """Return the address of an element of a half of the block; rows count from the first that will wait."""
        return Slice(self.block, (half + (row + self.before) * self.width + column,))

    def remember(self, first: Expr, count: Expr, half: Expr) -> list[Stmt]:
        """Return the statements after a tile: `count` rows from row `first` on wait in a half of the block."""
        values = (first, count, half, *self.captured)
        return [self._set(number, value) for number, value in enumerate(values)]

    def finish(self, begin: Expr, end: Expr | None = None) -> list[Stmt]:
        """Return the epilogue of the rows that wait, from the row `begin` to before `end` among them."""
        body: list[Stmt] = []
        first, count = self._get(body, "first", FIRST), self._get(body, "count", COUNT)
        half = self._get(body, "half", HALF)
        known: dict[str, Expr] = {
            var.name: self._get(body, var.name, number + 3)
            for number, var in enumerate(self.captured)
        }
        row = Var(self.names.fresh("finished"))
        last = count if end is None else t.minimum(end, count)
        parts = [
            self._vector(known, first, half, row, v, min(v + self.lanes, self.g.n))
            for v in range(0, self.g.n, self.lanes)
        ]
        return [*body, For(row, begin, last, Block(tuple(parts)))]

    def _vector(
        self,
        known: dict[str, Expr],
        first: Expr,
        half: Expr,
        waiting: Expr,
        begin: int,
        end: int,
    ) -> Stmt:
        g, col = self.g, Var(self.names.fresh("col"))
        acc = Var(self.names.fresh("sum"), g.accumulator)
        at = half + ((waiting + self.before) * self.width + col)
        body: list[Stmt] = [Let(acc, Load(self.block, (at,)))]
        row, value = first + waiting, t.as_expr(acc)
        if g.epilogue is not None:
            e = g.epilogue
            values = {**known, e.row.name: row, e.col.name: col, e.acc.name: acc}
            for let in e.lets:
                var = replace(let.var, name=self.names.fresh(let.var.name))
                body.append(Let(var, substitute_expr(let.value, values)))
                values[let.var.name] = var
            value = substitute_expr(e.value, values)
        offset = row * t.as_expr(g.c.row) + g.c.address.indices[0]
        body.append(Store(g.c.buffer, (substitute_expr(offset, known) + col,), value))
        return For(col, t.as_expr(begin), t.as_expr(end), Block(tuple(body)), "vector")

    def _set(self, number: int, value: Expr) -> Stmt:
        return Store(self.state, (t.as_expr(number),), value)

    def _get(self, body: list[Stmt], name: str, number: int) -> Expr:
        var = Var(self.names.fresh(name))
        body.append(Let(var, Load(self.state, (t.as_expr(number),))))
        return var


def captured_by(loop: For, g: Brgemm) -> tuple[Var, ...] | None:
    """Return the variables inside of a loop that the epilogue of a Brgemm depends on; None where rows must not wait
    from one iteration to the next.

    They must not where something in the loop reads C or writes what the epilogue reads, or where a buffer of theirs
    ends with an iteration.
    """
    if g.epilogue is None or g.accumulate or loop.kind != "serial" or not _is_reached(loop, g):
        return None
    read = {e.buffer.name for e in walk(g.epilogue) if isinstance(e, Load)}
    loaded, written, ended = _accesses(loop, g)
    if g.c.buffer.name in loaded | ended | read or not read.isdisjoint(written | ended):
        return None
    inside = set(bound_names(loop))
    own = {g.epilogue.row.name, g.epilogue.col.name, g.epilogue.acc.name}
    own |= {let.var.name for let in g.epilogue.lets}
    needed = vars_in(g.epilogue) | vars_in(g.c)
    found = tuple(x for name, x in needed.items() if name in inside and name not in own)
    return found if all(x.dtype == S64 and x.lanes == 1 for x in found) else None


def _is_reached(s: Stmt, g: Brgemm) -> bool:
    """Return whether a Brgemm lies in loops that run in order, and in branches, inside of a statement."""
    if s is g:
        return True
    if isinstance(s, For):
        return s.kind == "serial" and _is_reached(s.body, g)
    inner = s.body if isinstance(s, Block) else [x for x in children(s) if _holds(s, x)]
    return any(_is_reached(x, g) for x in inner)  # type: ignore[arg-type]


def _holds(s: Stmt, x: Node) -> bool:
    return isinstance(s, If) and x is not s.condition


def _accesses(loop: For, g: Brgemm) -> tuple[set[str], set[str], set[str]]:
    """Return the buffers that a loop reads, writes and allocates, the epilogue and the result of a Brgemm aside."""
    loaded, written, ended = set[str](), set[str](), set[str]()
    stack: list[Node] = [loop]
    while stack:
        current = stack.pop()
        stack.extend(children(current) if current is not g else ())
        if isinstance(current, Load):
            loaded.add(current.buffer.name)
        elif isinstance(current, Store):
            written.add(current.buffer.name)
        elif isinstance(current, Allocate):
            ended.add(current.buffer.name)
        elif isinstance(current, (Invoke, ParallelInvoke)):
            passed = {x.buffer.name for x in current.args if isinstance(x, Slice)}
            loaded |= passed
            written |= passed
        elif isinstance(current, Brgemm):
            loaded |= {current.a.buffer.name, current.b.buffer.name}
            if current is not g:
                written.add(current.c.buffer.name)
            if current.accumulate:
                loaded.add(current.c.buffer.name)
    return loaded, written, ended
