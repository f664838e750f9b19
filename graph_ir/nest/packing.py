"""Copies of operands that register tiles read: panels of B, panels with groups of k, converted rows of A."""

from __future__ import annotations

from ...base.dims import Size
from ...base.dtypes import U8, U16, U32
from ...base.records import dataclass
from ...targets.isa import Microkernel, Target
from ...tensor_ir import builder as t
from ...tensor_ir.builder import Value
from ...tensor_ir.nodes import Buffer, Expr, For, Load, LoopKind, Stmt, Var
from .problem import View
from .register_transpose import transposed

MOVED = 8
"""Groups that are moved one at a time in an iteration: enough to hide its counter."""


def panel_elements(k: int, columns: int, kernel: Microkernel) -> int:
    """Elements of a panel of `columns` that k rows are packed into."""
    return _padded_depth(k, kernel) * columns


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
    is_whole = kernel.registers is None or _padded_depth(k, kernel) == k
    return a.buffer.dtype == kernel.copied_a and is_whole


def pack_panels(
    source: View,
    local: Buffer,
    k: int,
    n: Size | Expr,
    columns: int,
    lanes: int,
    rows: tuple[Value, Value] | None = None,
) -> list[Stmt]:
    """Copy k x n elements of B into panels of `columns`; unused columns of the last one become zero.

    Elements are converted to the type of `local`. n may be known at run time; `rows`: the first and the end of those k
    that are copied, all if there are none. Columns that are dense in memory are transposed in registers of `lanes`: 4
    rows by 2,047 keys of 256, copied from a cache, take 0.8 of the time.
    """
    b, size, squares = t.LoopBuilder(), k * columns, 0
    full, rest = divmod(n, columns) if isinstance(n, int) else _counts(b, t.as_expr(n), columns)

    def copy(i: Expr, panel: Expr, width: int | Expr) -> None:
        with b.loop("pj", 0, width, "vector") as j:
            offset = i * source.step("k") + (panel * columns + j) * source.step("n")
            value = t.cast(source.buffer[source.base + offset], local.dtype)
            b.store(local, (panel * size + (i * columns + j),), value)

    if full and _is_transposed(source, local, columns, lanes):
        squares = k // lanes
        with b.loop("pp", 0, full) as panel:
            first = source.at(panel * columns * source.step("n"))
            _transpose_panel(b, first, local, panel * size, squares, columns, lanes)
    if rest:  # whole vectors of the last panel are read, so all of it must be defined
        with b.when(isinstance(rest, int) or rest > 0), b.loop("pz", 0, size, "vector") as z:
            b.store(local, (z + full * size,), 0)
    # Row by row, so that the source is read in the order it lies in memory, which is what prefetchers follow.
    with b.loop("pk", *(rows or (0, k))) as i:
        if full and squares * lanes < k:
            with b.when(not squares or i >= squares * lanes), b.loop("pp", 0, full) as panel:
                copy(i, panel, columns)
        if rest:
            copy(i, t.as_expr(full), rest)
    return b.statements()


def _counts(b: t.LoopBuilder, n: Expr, columns: int) -> tuple[Expr, Expr]:
    """Bind (number of whole panels, columns of the last one) of a dynamic number of columns."""
    return b.let("full", n // columns), b.let("rest", n % columns)


def _is_transposed(source: View, local: Buffer, columns: int, lanes: int) -> bool:
    """Return whether columns of B are dense, and their elements fill whole registers as they are."""
    is_dense = source.step("k") == 1 and source.step("n") != 1 and not source.blocks
    same = source.buffer.dtype == local.dtype and local.dtype.size * lanes in (16, 32, 64)
    return is_dense and same and columns % lanes == 0


def _transpose_panel(
    b: t.LoopBuilder,
    source: View,
    local: Buffer,
    start: Expr,
    squares: int,
    columns: int,
    lanes: int,
) -> None:
    """Copy whole squares of a panel of dense columns: `lanes` columns, a register of each, become rows."""
    step = source.step("n")
    with b.loop("pg", 0, columns // lanes) as group, b.loop("ps", 0, squares) as square:
        first = source.base + group * lanes * step + square * lanes
        loads = (Load(source.buffer, (first + i * step,), lanes) for i in range(lanes))
        loaded = [b.let("pt", one) for one in loads]
        for i, row in enumerate(transposed(loaded, local.dtype, lambda x: b.let("pt", x))):
            b.store(local, (start + (square * lanes + i) * columns + group * lanes,), row)


def pack_groups(
    source: View, local: Buffer, k: int, n: int, columns: int, kernel: Microkernel, lanes: int
) -> list[Stmt]:
    """Copy k x n elements of B into panels of `columns`, groups of neighboring k innermost, the rest zero.

    `lanes`: 32-bit elements of a vector, as many as columns of which whole groups are put together at once.
    """
    b, groups = t.LoopBuilder(), kernel.padded_groups(k)
    for number, width in b.tiles("pp", n, columns):
        of_panel = source.at(number * (columns * source.step("n")))
        start = number * (groups * columns * kernel.k_group)
        _Groups(b, of_panel, local, start, columns, kernel.k_group, groups, lanes).panel(k, width)
    return b.statements()


def pack_blocks(
    source: View, local: Buffer, k: int, n: int, columns: int, kernel: Microkernel, lanes: int
) -> list[Stmt]:
    """Copy k x n elements of B in blocks of neighboring k to one panel of `columns`."""
    (block, distance), b = source.blocks["k"], t.LoopBuilder()
    for number, size in b.tiles("kb", k, block):
        groups, start = -(-size // kernel.k_group), number * (block * columns)
        of_block = source.at(number * distance)
        _Groups(b, of_block, local, start, columns, kernel.k_group, groups, lanes).panel(size, n)
    return b.statements()


@dataclass(frozen=True)
class _Groups:
    """Copies of groups of k into the panel at `base`: rows are zipped, columns are moved group by group."""

    b: t.LoopBuilder
    source: View
    local: Buffer
    base: Expr
    columns: int
    group: int
    groups: int
    lanes: int

    def panel(self, k: int, n: int) -> None:
        """All k of `n` columns."""
        b, group = self.b, self.group
        if n < self.columns or k < self.groups * group:
            with b.loop("pz", 0, self.groups * self.columns * group, "vector") as z:
                b.store(self.local, (self.base + z,), 0)
        for i, count in b.tiles("pk", k, group):
            self.rows(i * group, n, count)

    def rows(self, first: Expr, n: int, count: int) -> None:
        """`count` k from `first` on, which is the first of a group, of `n` columns."""
        b = self.b
        if self.source.step("n") == 1:
            for j, active in b.tiles("pj", n, self.lanes):
                self._zip(first, j * self.lanes, count, active)
            return
        whole = self.source.step("k") == 1 and count == self.group
        move = self._move_group if whole else self._move_elements
        for j, several in b.tiles("pj", n, MOVED):
            with b.loop("pu", 0, several, "unrolled") as column:
                move(first, j * MOVED + column, count)

    def _zip(self, first: Expr, column: Expr, count: int, active: int) -> None:
        """A vector of columns of each row, put together in 32-bit lanes."""
        lanes, bits = self.lanes, 32 // self.group
        narrow = U16 if bits == 16 else U8
        part = active if active < lanes else None
        word: Expr | None = None
        for r in range(count):
            at = self.source.base + ((first + r) * self.source.step("k") + column)
            loaded = t.cast(Load(self.source.buffer, (at,), lanes, part), self.local.dtype)
            wide: Expr = t.cast(t.bitcast(loaded, narrow), U32)
            if r:
                wide = wide << t.const(r * bits, U32, lanes)
            word = wide if word is None else word | wide
        assert word is not None
        value = t.bitcast(word, self.local.dtype)
        self.b.store(self.local, (self._offset(first, column),), value, part and part * self.group)

    def _move_group(self, first: Expr, column: Expr, count: int) -> None:
        """A group that lies together in the source."""
        at = self.source.base + column * self.source.step("n") + first
        value = t.cast(Load(self.source.buffer, (at,), self.group), self.local.dtype)
        self.b.store(self.local, (self._offset(first, column),), value)

    def _move_elements(self, first: Expr, column: Expr, count: int) -> None:
        for r in range(count):
            offset = column * self.source.step("n") + (first + r) * self.source.step("k")
            value = t.cast(self.source.buffer[self.source.base + offset], self.local.dtype)
            self.b.store(self.local, (self._offset(first, column) + r,), value)

    def _offset(self, first: Expr, column: Expr) -> Expr:
        return self.base + (first * self.columns + column * self.group)


def copied_rows(
    source: View,
    rows: tuple[int | Expr, int],
    k: int,
    kernel: Microkernel,
    target: Target,
    name: str = "a_block",
) -> tuple[View, Stmt]:
    """Return (rows x k elements of A in a local buffer `name`, which the caller allocates; the copy).

    Elements have the dtype they are multiplied in. The contiguous axis stays contiguous; vectors are aligned, and the
    rows are not a power of two apart, which would map them to one set of the cache. `rows`: their number, and the
    maximum. Those of two-dimensional registers have zeros behind k, up to whole steps.
    """
    (count, max_rows), dtype, zeros = rows, kernel.copied_a, 0
    outer: tuple[str, int | Expr] = ("m", count)
    inner: tuple[str, int | Expr] = ("k", k)
    most = max_rows, k
    if kernel.uses_tiles:
        local, zeros = padded_view(max_rows, k, kernel, name), _padded_depth(k, kernel) - k
    else:
        if source.step("k") != 1:
            outer, inner, most = ("k", k), ("m", count), (k, max_rows)
        lanes = target.lanes(dtype)
        stride = (-(-most[1] // lanes) + 1) * lanes
        buffer = Buffer(name, dtype, (most[0] * stride,), "local")
        local = View(buffer, {outer[0]: stride, inner[0]: 1})
    b = t.LoopBuilder()
    with b.loop("ak", 0, outer[1]) as i:
        row = local.base + i * local.step(outer[0])
        with b.loop("aj", 0, inner[1], "vector") as j:
            at = source.base + (i * source.step(outer[0]) + j * source.step(inner[0]))
            b.store(local.buffer, (row + j,), t.cast(source.buffer[at], dtype))
        if zeros:
            with b.loop("az", 0, zeros, "vector") as z:
                b.store(local.buffer, (row + z + k,), 0)
    return local, b.body()


def _padded_depth(k: int, kernel: Microkernel) -> int:
    return kernel.padded_groups(k) * kernel.k_group


def padded_view(rows: int, k: int, kernel: Microkernel, name: str) -> View:
    """Return a local buffer for rows of two-dimensional registers: row 0 is behind rows that may be loaded and are not
    used."""
    assert kernel.registers is not None
    dtype, depth = kernel.copied_a, _padded_depth(k, kernel)
    before, line = kernel.registers.rows, 64 // dtype.size
    stride = (-(-depth // line) | 1) * line
    local = Buffer(name, dtype, ((before + rows) * stride,), "local")
    return View(local, {"m": stride, "k": 1}, base=t.as_expr(before * stride))


def loop(var: Var, size: Value, body: Stmt, kind: LoopKind) -> For:
    """Return the loop `for var in range(size): body`."""
    return For(var, t.as_expr(0), t.as_expr(size), body, kind)
