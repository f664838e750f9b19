"""Copies of operands that register tiles read: panels of B, panels with groups of k, converted rows of A."""

from __future__ import annotations

from typing import Any

from ...base.dims import Size
from ...base.dtypes import U8, U16, U32, DType
from ...base.records import dataclass
from ...targets.isa import Microkernel, Target
from ...tensor_ir import builder as t
from ...tensor_ir.builder import Value
from ...tensor_ir.nodes import (
    Block,
    Buffer,
    Expr,
    For,
    If,
    Let,
    Load,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from .problem import View
from .register_transpose import transposed

MOVED = 8
"""Groups that are moved one at a time in an iteration: enough to hide its counter."""


def panel_elements(k: int, columns: int, kernel: Microkernel) -> int:
    """Elements of a panel of `columns` that k rows are packed into."""
    return kernel.padded_groups(k) * kernel.k_group * columns


def pack(
    source: View, local: Buffer, k: int, n: int, columns: int, kernel: Microkernel, target: Target
) -> list[Stmt]:
    """Copy k x n elements of B into panels of `columns`, as the microkernel reads them."""
    lanes = target.lanes(kernel.accumulator)
    if kernel.k_group == 1:
        return pack_panels(source, local, k, n, columns, lanes)
    return pack_groups(source, local, k, n, columns, kernel, lanes)


def is_read_in_place(a: View, k: int, kernel: Microkernel) -> bool:
    """Return whether register tiles read A where it lies: in the type they multiply, in whole steps of k."""
    is_whole = kernel.registers is None or kernel.padded_groups(k) * kernel.k_group == k
    return a.buffer.dtype == kernel.copied_a and is_whole


def pack_panels(
    source: View, local: Buffer, k: int, n: Size | Expr, columns: int, lanes: int
) -> list[Stmt]:
    """Copy k x n elements of B into panels of `columns`; unused columns of the last one become zero.

    Elements are converted to the type of `local`. n may be known at run time. Columns that are dense in memory are
    transposed in registers of `lanes`: 4 rows by 2,047 keys of 256, copied from a cache, take 0.8 of the time.
    """
    full: Any = Var("full")
    rest: Any = Var("rest")
    body: list[Stmt] = []
    if isinstance(n, int):
        full, rest = divmod(n, columns)
    else:
        body += [Let(full, t.as_expr(n) // columns), Let(rest, t.as_expr(n) % columns)]
    row_step, column_step = source.step("k"), source.step("n")
    i, j, panel = Var("pk"), Var("pj"), Var("pp")

    def copy(first: Expr, width: int | Expr) -> Stmt:
        column = first * columns + j
        offset = i * row_step + column * column_step
        value = t.cast(source.buffer[source.base + offset], local.dtype)
        target = first * (k * columns) + (i * columns + j)
        return loop(j, width, Store(local, (target,), value), "vector")

    squares = 0
    if full and _is_transposed(source, local, columns, lanes):
        squares = k // lanes
        first = source.at(panel * columns * column_step)
        whole = _transposed_panel(first, local, panel * (k * columns), squares, columns, lanes)
        body.append(loop(panel, full, whole, "serial"))
    row: list[Stmt] = []
    if full and squares * lanes < k:
        whole = loop(panel, full, copy(panel, columns), "serial")
        begin = squares * lanes
        row.append(whole if not begin else If(i >= begin, whole))
    if rest:  # whole vectors of the last panel are read, so all of it must be defined
        z = Var("pz")
        zero: Stmt = Store(local, (z + full * (k * columns),), t.const(0, local.dtype))
        zero = loop(z, k * columns, zero, "vector")
        body.append(zero if isinstance(rest, int) else If(rest > 0, zero))
        row.append(copy(t.as_expr(full), rest))
    # Row by row, so that the source is read in the order it lies in memory, which is what prefetchers follow.
    return [*body, loop(i, k, Block(tuple(row)), "serial")]


def _is_transposed(source: View, local: Buffer, columns: int, lanes: int) -> bool:
    """Return whether columns of B are dense, and their elements fill whole registers as they are."""
    is_dense = source.step("k") == 1 and source.step("n") != 1 and not source.blocks
    same = source.buffer.dtype == local.dtype and local.dtype.size * lanes in (16, 32, 64)
    return is_dense and same and columns % lanes == 0


def _transposed_panel(
    source: View, local: Buffer, start: Expr, squares: int, columns: int, lanes: int
) -> Stmt:
    """Copy whole squares of a panel of dense columns: `lanes` columns, a register of each, become rows."""
    group, square, body = Var("pg"), Var("ps"), list[Stmt]()

    def bind(value: Expr) -> Expr:
        var = Var(f"pt{len(body)}", value.dtype, value.lanes)
        body.append(Let(var, value))
        return var

    first = source.base + group * lanes * source.step("n") + square * lanes
    loaded = [
        bind(Load(source.buffer, (first + i * source.step("n"),), lanes)) for i in range(lanes)
    ]
    for i, row in enumerate(transposed(loaded, local.dtype, bind)):
        at = start + (square * lanes + i) * columns + group * lanes
        body.append(Store(local, (at,), row))
    inner = loop(square, squares, Block(tuple(body)), "serial")
    return loop(group, columns // lanes, inner, "serial")


def pack_groups(
    source: View, local: Buffer, k: int, n: int, columns: int, kernel: Microkernel, lanes: int
) -> list[Stmt]:
    """Copy k x n elements of B into panels of `columns`, groups of neighboring k innermost, the rest zero.

    `lanes`: 32-bit elements of a vector, as many as columns of which whole groups are put together at once.
    """
    full, rest = divmod(n, columns)
    groups, panel = kernel.padded_groups(k), Var("pp")
    size = groups * columns * kernel.k_group

    def copy(number: Expr, width: int) -> list[Stmt]:
        of_panel = source.at(number * (columns * source.step("n")))
        one = _Groups(of_panel, local, number * size, columns, kernel.k_group, groups, lanes)
        return one.panel(k, width)

    body: list[Stmt] = []
    if full:
        body.append(loop(panel, full, Block(tuple(copy(panel, columns))), "serial"))
    return body + (copy(t.as_expr(full), rest) if rest else [])


@dataclass(frozen=True)
class _Groups:
    """Copies of groups of k into the panel at `base`: rows are zipped, columns are moved group by group."""

    source: View
    local: Buffer
    base: Expr
    columns: int
    group: int
    groups: int
    lanes: int

    def panel(self, k: int, n: int) -> list[Stmt]:
        """All k of `n` columns."""
        group, body = self.group, []
        if n < self.columns or k < self.groups * group:
            z = Var("pz")
            zero = Store(self.local, (self.base + z,), t.const(0, self.local.dtype))
            body.append(loop(z, self.groups * self.columns * group, zero, "vector"))
        i = Var("pk")
        if k // group:
            rows = Block(tuple(self.rows(i * group, n, group)))
            body.append(loop(i, k // group, rows, "serial"))
        return body + (self.rows(t.as_expr(k - k % group), n, k % group) if k % group else [])

    def rows(self, first: Expr, n: int, count: int) -> list[Stmt]:
        """`count` k from `first` on, which is the first of a group, of `n` columns."""
        if self.source.step("n") == 1:
            full, rest = divmod(n, self.lanes)
            j = Var("pj")
            at = j * self.lanes
            body: list[Stmt] = []
            if full:
                body.append(loop(j, full, self._zipped(first, at, count, self.lanes), "serial"))
            if rest:
                body.append(self._zipped(first, t.as_expr(full * self.lanes), count, rest))
            return body
        whole = self.source.step("k") == 1 and count == self.group
        move = self._whole if whole else self._elements
        full, rest = divmod(n, MOVED)
        outer, inner = Var("pj"), Var("pu")
        column = outer * MOVED + inner
        body = []
        if full:
            several = loop(inner, MOVED, move(first, column, count), "unrolled")
            body.append(loop(outer, full, several, "serial"))
        if rest:
            last = Var("pr")
            column = last + full * MOVED
            body.append(loop(last, rest, move(first, column, count), "unrolled"))
        return body

    def _zipped(self, first: Expr, column: Expr, count: int, active: int) -> Stmt:
        """A vector of columns of each row, put together in 32-bit lanes."""
        lanes, bits = self.lanes, 32 // self.group
        narrow = U16 if bits == 16 else U8
        part = active if active < lanes else None
        word: Expr | None = None
        for r in range(count):
            at = self.source.base + ((first + r) * self.source.step("k") + column)
            loaded = t.cast(Load(self.source.buffer, (at,), lanes, part), self.local.dtype)
            row = t.bitcast(loaded, narrow)
            wide: Expr = t.cast(row, U32)
            if r:
                wide = wide << t.const(r * bits, U32, lanes)
            word = wide if word is None else word | wide
        assert word is not None
        value = t.bitcast(word, self.local.dtype)
        return Store(self.local, (self._offset(first, column),), value, part and part * self.group)

    def _whole(self, first: Expr, column: Expr, count: int) -> Stmt:
        """A group that lies together in the source."""
        at = self.source.base + column * self.source.step("n") + first
        value = t.cast(Load(self.source.buffer, (at,), self.group), self.local.dtype)
        return Store(self.local, (self._offset(first, column),), value)

    def _elements(self, first: Expr, column: Expr, count: int) -> Stmt:
        stores = []
        for r in range(count):
            offset = column * self.source.step("n") + (first + r) * self.source.step("k")
            loaded = self.source.buffer[self.source.base + offset]
            value = t.cast(loaded, self.local.dtype)
            stores.append(Store(self.local, (self._offset(first, column) + r,), value))
        return Block(tuple(stores))

    def _offset(self, first: Expr, column: Expr) -> Expr:
        return self.base + (first * self.columns + column * self.group)


def convert_rows(
    source: View,
    rows: tuple[int | Expr, int],
    k: int,
    dtype: DType,
    lanes: int,
    name: str = "a_block",
) -> tuple[View, Stmt]:
    """Return (rows x k elements of A in `dtype` in a local buffer `name`, which the caller allocates; the copy).

    The contiguous axis stays contiguous; vectors are aligned, and the rows are not a power of two apart, which would
    map them to one set of the cache. `rows`: their number, and the maximum.
    """
    by_rows = source.step("k") == 1
    count, max_rows = rows
    outer, inner = (count, k) if by_rows else (k, count)
    max_outer, max_inner = (max_rows, k) if by_rows else (k, max_rows)
    stride = (-(-max_inner // lanes) + 1) * lanes
    local = Buffer(name, dtype, (max_outer * stride,), "local")
    i, j = Var("ak"), Var("aj")
    at = source.base + (i * source.step("m" if by_rows else "k") + j)
    value = t.cast(source.buffer[at], dtype)
    copy = loop(j, inner, Store(local, (i * stride + j,), value), "vector")
    strides = {"m": stride, "k": 1} if by_rows else {"m": 1, "k": stride}
    return View(local, strides), loop(i, outer, copy, "serial")


def padded_rows(
    source: View, rows: tuple[int | Expr, int], k: int, kernel: Microkernel, name: str
) -> tuple[View, Stmt]:
    """Return (rows x k elements of A in a local buffer, the copy) as two-dimensional registers are loaded.

    Zeros follow each row up to whole steps of k. In front of row 0 are rows that may be loaded and are not used.
    """
    (count, max_rows), dtype = rows, kernel.copied_a
    local, depth = padded_view(max_rows, k, kernel, name), kernel.padded_groups(k) * kernel.k_group
    i, j, z = Var("ak"), Var("aj"), Var("az")
    at = source.base + (i * source.step("m") + j * source.step("k"))
    row = local.base + i * local.step("m")
    value = t.cast(source.buffer[at], dtype)
    body: list[Stmt] = [loop(j, k, Store(local.buffer, (row + j,), value), "vector")]
    if depth > k:
        zero = Store(local.buffer, (row + z + k,), t.const(0, dtype))
        body.append(loop(z, depth - k, zero, "vector"))
    return local, loop(i, count, Block(tuple(body)), "serial")


def padded_view(rows: int, k: int, kernel: Microkernel, name: str) -> View:
    """Return the local buffer that `padded_rows` fills: row 0 is behind rows that may be loaded and are not used."""
    assert kernel.registers is not None
    dtype, depth = kernel.copied_a, kernel.padded_groups(k) * kernel.k_group
    before, line = kernel.registers.rows, 64 // dtype.size
    stride = (-(-depth // line) | 1) * line
    local = Buffer(name, dtype, ((before + rows) * stride,), "local")
    return View(local, {"m": stride, "k": 1}, base=t.as_expr(before * stride))


def loop(var: Var, size: Value, body: Stmt, kind: LoopKind) -> For:
    """Return the loop `for var in range(size): body`."""
    return For(var, t.as_expr(0), t.as_expr(size), body, kind)
