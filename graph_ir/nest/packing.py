"""Copies of operands that register tiles read: panels of B, panels with groups of k, converted rows of A."""

from __future__ import annotations

from ...base.dtypes import U8, U16, U32, DType
from ...base.records import dataclass
from ...targets.isa import Microkernel, Target
from ...tensor_ir import builder as t
from ...tensor_ir.builder import Value
from ...tensor_ir.nodes import (
    Allocate,
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
from .operand import Operand

MOVED = 8
"""Groups that are moved one at a time in an iteration: enough to hide its counter."""


def panel_elements(k: int, columns: int, kernel: Microkernel) -> int:
    """Elements of a panel of `columns` that k rows are packed into."""
    return kernel.padded_groups(k) * kernel.k_group * columns


def pack(
    source: Operand,
    start: Expr,
    local: Buffer,
    k: int,
    n: int,
    columns: int,
    kernel: Microkernel,
    target: Target,
) -> list[Stmt]:
    """Copy the k x n matrix at `start` into panels of `columns`, as the microkernel reads them."""
    if kernel.k_group == 1:
        return pack_panels(source, start, local, k, n, columns)
    lanes = target.lanes(kernel.accumulator)
    return pack_groups(source, start, local, k, n, columns, kernel, lanes)


def left_rows(
    source: Operand, start: Expr, rows: int, k: int, kernel: Microkernel, target: Target
) -> tuple[Operand, Expr, list[Stmt]]:
    """(operand, where in it, statements before) of the rows x k matrix at `start` in the type it is multiplied in."""
    dtype, in_place = kernel.copied_a, source.buffer.dtype == kernel.copied_a
    if in_place and (kernel.registers is None or kernel.padded_groups(k) * kernel.k_group == k):
        return source, start, []
    if kernel.registers is not None:
        padded, base, copy = padded_rows(source, start, (rows, rows), k, kernel, "a_rows")
        return padded, base, [Allocate(padded.buffer), copy]
    local, copy = convert_rows(source, start, (rows, rows), k, dtype, target.lanes(dtype))
    return local, t.as_expr(0), [Allocate(local.buffer), copy]


def pack_panels(
    source: Operand, start: Expr, local: Buffer, k: int, n: int, columns: int
) -> list[Stmt]:
    """Copy the k x n matrix at `start` into panels of `columns`; unused columns of the last one become zero.

    Elements are converted to the type of `local`.
    """
    full, rest = divmod(n, columns)
    i, j, panel = Var("pk"), Var("pj"), Var("pp")

    def copy(first: Expr, width: int) -> Stmt:
        column = first * columns + j
        offset = i * source.row + column * source.col
        value = t.cast(source.buffer[start + offset], local.dtype)
        target = first * (k * columns) + (i * columns + j)
        return loop(j, width, Store(local, (target,), value), "vector")

    row: list[Stmt] = [loop(panel, full, copy(panel, columns), "serial")] if full else []
    row += [copy(t.as_expr(full), rest)] if rest else []
    # Row by row, so that the source is read in the order it lies in memory, which is what prefetchers follow.
    body: list[Stmt] = [loop(i, k, Block(tuple(row)), "serial")]
    if rest:  # whole vectors of the last panel are read, so all of it must be defined
        z = Var("pz")
        zero = Store(local, (z + full * k * columns,), t.const(0, local.dtype))
        body.insert(0, loop(z, k * columns, zero, "vector"))
    return body


def pack_dynamic(
    source: Operand, start: Expr, local: Buffer, k: int, n: Expr, columns: int
) -> list[Stmt]:
    """Copy a k x n matrix, n being known at run time, into a panel of more `columns`, of which the rest is zero."""
    z, i, j = Var("pz"), Var("pk"), Var("pj")
    zero = Store(local, (z,), t.const(0, local.dtype))
    offset = i * source.row + j * source.col
    value = t.cast(source.buffer[start + offset], local.dtype)
    copy = Store(local, (i * columns + j,), value)
    return [
        loop(z, k * columns, zero, "vector"),
        loop(i, k, loop(j, n, copy, "vector"), "serial"),
    ]


def pack_dynamic_panels(
    source: Operand, start: Expr, local: Buffer, k: int, n: Expr, columns: int
) -> list[Stmt]:
    """Copy a k x n matrix, n being known at run time, into panels of `columns`; the rest of the last one is zero."""
    full, rest, panel, i, j = map(Var, ("full", "rest", "pp", "pk", "pj"))

    def copy(first: Expr, width: int | Expr) -> Stmt:
        column = first * columns + j
        offset = i * source.row + column * source.col
        value = t.cast(source.buffer[start + offset], local.dtype)
        target = first * (k * columns) + (i * columns + j)
        return loop(j, width, Store(local, (target,), value), "vector")

    z = Var("pz")
    last = full * (k * columns)
    zero = Store(local, (z + last,), t.const(0, local.dtype))
    has_rest = rest > 0
    # Row by row, as `pack_panels` does.
    row = Block((loop(panel, full, copy(panel, columns), "serial"), copy(full, rest)))
    return [
        Let(full, n // columns),
        Let(rest, n % columns),
        If(has_rest, loop(z, k * columns, zero, "vector")),
        loop(i, k, row, "serial"),
    ]


def pack_groups(
    source: Operand,
    start: Expr,
    local: Buffer,
    k: int,
    n: int,
    columns: int,
    kernel: Microkernel,
    lanes: int,
) -> list[Stmt]:
    """Copy the k x n matrix at `start` into panels of `columns`, groups of neighboring k innermost, the rest zero.

    `lanes`: 32-bit elements of a vector, as many as columns of which whole groups are put together at once.
    """
    full, rest = divmod(n, columns)
    groups, panel = kernel.padded_groups(k), Var("pp")
    size = groups * columns * kernel.k_group

    def copy(number: Expr, width: int) -> list[Stmt]:
        at = start + number * (columns * source.col)
        one = _Groups(source, at, local, number * size, columns, kernel.k_group, groups, lanes)
        return one.panel(k, width)

    body: list[Stmt] = []
    if full:
        body.append(loop(panel, full, Block(tuple(copy(panel, columns))), "serial"))
    return body + (copy(t.as_expr(full), rest) if rest else [])


@dataclass(frozen=True)
class _Groups:
    """Copies of groups of k into the panel at `base`: rows are zipped, columns are moved group by group."""

    source: Operand
    start: Expr
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
        if self.source.col == 1:
            full, rest = divmod(n, self.lanes)
            j = Var("pj")
            at = j * self.lanes
            body: list[Stmt] = []
            if full:
                body.append(loop(j, full, self._zipped(first, at, count, self.lanes), "serial"))
            if rest:
                body.append(self._zipped(first, t.as_expr(full * self.lanes), count, rest))
            return body
        whole = self.source.row == 1 and count == self.group
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
            at = self.start + ((first + r) * self.source.row + column)
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
        at = self.start + column * self.source.col + first
        value = t.cast(Load(self.source.buffer, (at,), self.group), self.local.dtype)
        return Store(self.local, (self._offset(first, column),), value)

    def _elements(self, first: Expr, column: Expr, count: int) -> Stmt:
        stores = []
        for r in range(count):
            offset = column * self.source.col + (first + r) * self.source.row
            loaded = self.source.buffer[self.start + offset]
            value = t.cast(loaded, self.local.dtype)
            stores.append(Store(self.local, (self._offset(first, column) + r,), value))
        return Block(tuple(stores))

    def _offset(self, first: Expr, column: Expr) -> Expr:
        return self.base + (first * self.columns + column * self.group)


def convert_rows(
    source: Operand, start: Expr, rows: tuple[int | Expr, int], k: int, dtype: DType, lanes: int,
    name: str = "a_block",
) -> tuple[Operand, Stmt]:  # fmt: skip
    """Return (rows x k matrix at `start` in `dtype` in a local buffer `name`, which the caller allocates; the copy).

    The contiguous axis stays contiguous; vectors are aligned, and the rows are no power of two apart, which would map
    them to one set of the cache. `rows`: their number, and the maximum.
    """
    by_rows = source.col == 1
    count, max_rows = rows
    outer, inner = (count, k) if by_rows else (k, count)
    max_outer, max_inner = (max_rows, k) if by_rows else (k, max_rows)
    stride = (-(-max_inner // lanes) + 1) * lanes
    local = Buffer(name, dtype, (max_outer * stride,), "local")
    i, j = Var("ak"), Var("aj")
    at = start + (i * (source.row if by_rows else source.col) + j)
    value = t.cast(source.buffer[at], dtype)
    copy = loop(j, inner, Store(local, (i * stride + j,), value), "vector")
    none = (0,) * len(source.batch_strides)
    row, col = (stride, 1) if by_rows else (1, stride)
    return Operand(local, none, row, col), loop(i, outer, copy, "serial")


def padded_rows(
    source: Operand,
    start: Expr,
    rows: tuple[int | Expr, int],
    k: int,
    kernel: Microkernel,
    name: str,
) -> tuple[Operand, Expr, Stmt]:
    """Return (rows x k matrix in a local buffer, offset of row 0, the copy) as two-dimensional registers are loaded.

    Zeros follow each row up to whole steps of k. In front of row 0 are rows that may be loaded and are not used.
    """
    assert kernel.registers is not None
    dtype, depth = kernel.copied_a, kernel.padded_groups(k) * kernel.k_group
    (count, max_rows), before = rows, kernel.registers.rows
    line = 64 // dtype.size
    stride = (-(-depth // line) | 1) * line
    local = Buffer(name, dtype, ((before + max_rows) * stride,), "local")
    i, j, z = Var("ak"), Var("aj"), Var("az")
    value = t.cast(source.buffer[start + (i * source.row + j * source.col)], dtype)
    row = (i + before) * stride
    body: list[Stmt] = [loop(j, k, Store(local, (row + j,), value), "vector")]
    if depth > k:
        zero = Store(local, (row + z + k,), t.const(0, dtype))
        body.append(loop(z, depth - k, zero, "vector"))
    copy = loop(i, count, Block(tuple(body)), "serial")
    return Operand(local, (), stride, 1), t.as_expr(before * stride), copy


def loop(var: Var, size: Value, body: Stmt, kind: LoopKind) -> For:
    """Return the loop `for var in range(size): body`."""
    return For(var, t.as_expr(0), t.as_expr(size), body, kind)
