"""The parallel loops around a nest: nested loops of known trip counts, or one loop over a dynamic number of
tasks, shared by threads where there is enough work."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...base.dims import Dim, Size, ceil_quotient, is_known
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr, For, If, Let, LoopKind, Stmt, Var
from .nest import Loop, Nest
from .position import Chunk, Position

MIN_TILES = 2
"""Register tiles in a block of rows below which threads share the panels instead."""

Body = Callable[[int, Position], Stmt]
"""(depth, position) -> the loops from that depth on."""


def task_loops(nest: Nest, position: Position, body: Body) -> Stmt:
    """Return the loops of a nest that are tasks, those outside of the reduced loops and stages, around `body`."""
    is_static = is_known(*(nest.problem.sizes[axis] for axis in "mnk"))
    if not is_static and nest.is_parallel and any(loop.kind == "chunk" for loop in nest.loops):
        return _DynamicTasks(nest).loops(position, body)
    return _nested(nest, 0, position, body)


def task_count(nest: Nest) -> int:
    """Return how many of the outermost loops are tasks, outside of which nothing is staged."""
    count = 0
    for loop in nest.loops:
        if nest.is_reduced(loop) or (loop.kind == "serial" and loop.axis not in nest.problem.batch):
            break
        count += 1
    return count


def _nested(nest: Nest, depth: int, position: Position, body: Body) -> Stmt:
    """One loop inside the other, so that they are shared as one: the last iteration is told apart inside."""
    if depth == task_count(nest):
        return body(depth, position)
    loop = nest.loops[depth]
    kind: LoopKind = "parallel" if nest.is_parallel else "serial"
    extent = position.extents[loop.axis]
    if loop.kind == "chunk":
        return _chunks(nest, depth, position, body, kind)
    if loop.axis == "y":
        trips, inside, var = clamped(position, loop)
        inner = _nested(nest, depth + 1, inside, body)
        return For(var, t.ZERO, t.as_expr(trips), inner, kind)
    if not is_known(extent):  # a batch
        var = Var(loop.name)
        inner = _nested(nest, depth + 1, position.enter(loop.axis, var, 1, 1), body)
        return For(var, t.ZERO, t.as_expr(extent), inner, kind)
    step = even_step(loop, extent)
    full, rest = divmod(extent, step)
    if full + bool(rest) == 1 and loop.axis not in nest.problem.batch:
        return _nested(nest, depth + 1, position, body)
    var = Var(loop.name)
    whole = _nested(nest, depth + 1, position.enter(loop.axis, var, step, step), body)
    if rest:
        last = position.enter(loop.axis, t.as_expr(full), step, rest)
        whole = If(var < full, whole, _nested(nest, depth + 1, last, body))
    return For(var, t.ZERO, t.as_expr(full + bool(rest)), whole, kind)


def clamped(position: Position, loop: Loop) -> tuple[Any, Position, Var]:
    """Return (iterations, position inside, variable) of a loop whose last iteration is shorter."""
    extent, var = position.extents[loop.axis], Var(loop.name)
    size: Any = loop.step
    if not (isinstance(extent, int) and extent % loop.step == 0) and loop.step > 1:
        size = t.minimum(t.as_expr(extent) - var * loop.step, loop.step)
    trips: Any = extent
    if loop.step > 1:
        known = isinstance(extent, int | Dim)
        trips = (ceil_quotient if known else ceil_div)(extent, loop.step)
    if isinstance(trips, int) and trips == 1:
        return 1, position.enter(loop.axis, t.ZERO, loop.step, extent), var
    return trips, position.enter(loop.axis, var, loop.step, size), var


def even_step(loop: Loop, extent: int) -> int:
    """Return the step of a loop over `extent`: at most its own, if its iterations are made equally long."""
    return math.ceil(extent / math.ceil(extent / loop.step)) if loop.even else loop.step


def _chunks(nest: Nest, depth: int, position: Position, body: Body, kind: LoopKind) -> Stmt:
    """Contiguous chunks of the panels; the last one has the narrow panel."""
    loop = nest.loops[depth]
    if not is_known(position.extents[loop.axis]):
        return _nested(nest, depth + 1, position, body)
    full, rest = divmod(position.extents[loop.axis], loop.step)
    size = math.ceil((full + bool(rest)) / max(loop.chunks, 1))
    count = math.ceil((full + bool(rest)) / size) if size else 1
    if count <= 1:
        return _nested(nest, depth + 1, position, body)
    var = Var(loop.name)
    end = t.minimum((var + 1) * size, full)
    chunk = Chunk(var * size, end, t.equal(var, count - 1))
    inner = _nested(nest, depth + 1, position.chunked(loop.of, chunk), body)
    # Outside the blocks of rows: those form a nest only with the loop directly around them.
    return For(var, t.ZERO, t.as_expr(count), inner, kind)


class _DynamicTasks:
    """Tasks of a nest over batch axes, blocks of rows and chunks of panels whose numbers are known at run time."""

    def __init__(self, nest: Nest) -> None:
        self.nest, self.sizes, self.sharing = nest, nest.problem.sizes, nest.sharing
        assert nest.tile is not None
        depth = task_count(nest)
        self.depth = depth
        self.chunk = next(loop for loop in nest.loops[:depth] if loop.kind == "chunk")
        self.block = next(
            loop for loop in nest.loops[:depth] if loop.axis == "m" and loop.kind == "parallel"
        )
        self.rows, self.columns = t.as_expr(self.sizes["m"]), t.as_expr(self.sizes["n"])
        self.batch = [(Var(axis), self.sizes[axis]) for axis in nest.problem.batch]

    def loops(self, position: Position, body: Body) -> Stmt:
        """Return one loop over all tasks; threads share it where that pays."""
        blocks, chunks = self._counts()
        total = chunks * blocks * t.as_expr(math.prod(size for _, size in self.batch))
        b, is_shared = t.LoopBuilder(), self.nest.is_parallel and self.sharing.threads > 1
        with shared_tasks(b, total, self._pays() if is_shared else None) as task:
            b.emit(self._task(task, blocks, chunks, position, body))
        return t.block_of(b.statements())

    def _pays(self) -> Expr:
        return self.sharing.pays(math.prod(self.sizes.values()))

    def _counts(self) -> tuple[Expr, Expr]:
        """(blocks of rows, chunks of panels): the smaller operand is the one that all threads read."""
        threads = self.sharing.threads
        blocks = ceil_div(self.rows, self.block.step)
        if threads == 1:
            return blocks, t.ONE
        assert self.nest.tile is not None
        tile_rows = self.nest.tile.shape.rows
        panels = ceil_div(self.columns, self.chunk.step)
        few = self.rows < t.maximum(self.columns, threads * MIN_TILES * tile_rows)
        chunks = t.select(self._pays(), t.select(few, t.minimum(panels, threads), t.ONE), t.ONE)
        even = ceil_div(blocks, threads) * threads
        return t.select(self._pays(), t.select(few, blocks, even), blocks), chunks

    def _task(
        self, task: Var, all_blocks: Expr, all_chunks: Expr, position: Position, body: Body
    ) -> Stmt:
        """A block of rows of one matmul of the batch times a chunk of the panels."""
        b, step, alone = t.LoopBuilder(), self.chunk.step, self.sharing.threads == 1
        full, panels = self.columns // step, ceil_div(self.columns, step)
        names, sizes = [var for var, _ in self.batch], [size for _, size in self.batch]
        blocks, chunks = b.let("blocks", all_blocks), b.let("chunks", all_chunks)
        b.emit(*batch_indices(names, sizes, task // (chunks * blocks)))
        within = b.let("within", task % (chunks * blocks))
        size = b.let("size", ceil_div(self.rows, blocks))
        first = b.let("first", within % blocks * size)
        count = b.let("count", t.minimum(size, self.rows - first))
        share = panels if alone else ceil_div(panels, chunks)
        begin = b.let("begin", t.ZERO if alone else within // blocks * share)
        end = b.let("end", full if alone else t.minimum(begin + share, full))
        for var in names:
            position = position.enter(var.name, var, 1, 1)
        position = position.enter("m", first, 1, count)
        has_tail = None if alone else (begin < panels) & (begin + share >= panels)
        position = position.chunked(self.chunk.of, Chunk(begin, end, has_tail))
        b.emit(body(self.depth, position))
        return b.body()


@contextmanager
def shared_tasks(b: t.LoopBuilder, total: Expr, pays: Expr | None) -> Iterator[Var]:
    """Open a loop over `total` tasks, which threads share where that `pays`; None: there is one thread."""
    if pays is None:
        with b.loop("task", 0, total) as task:
            yield task
        return
    chunks = t.select(pays, total, 1)
    with b.loop("chunk", 0, chunks, "parallel") as chunk:
        each = b.let("each", ceil_div(total, chunks))
        with b.loop("task", chunk * each, t.minimum((chunk + 1) * each, total)) as task:
            yield task


def batch_indices(names: Sequence[Var], sizes: Sequence[Size], number: Expr) -> list[Stmt]:
    """Return the bindings of the index on each batch axis of matmul number `number`."""
    found: list[Stmt] = []
    for var, size in reversed(list(zip(names, sizes, strict=True))):
        found.append(Let(var, number if var is names[0] else number % size))
        number = number // size
    return found


def ceil_div(value: Expr, divisor: Expr | int) -> Expr:
    """Return value / divisor rounded up, of a value from 0 and a divisor from 1."""
    return value if divisor in (1, t.ONE) else (value + divisor - 1) // divisor


def nested(batch: Sequence[Var], sizes: Sequence[int], body: Stmt, kind: LoopKind) -> Stmt:
    """Loops over the batch axes around `body`."""
    for var, size in reversed(list(zip(batch, sizes, strict=True))):
        body = For(var, t.ZERO, t.as_expr(size), body, kind)
    return body
