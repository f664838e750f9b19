"""Loop nest of transposes: tiles of one cache line's width, transposed in registers.

for every outer index, every block of rows of the result and every line-wide strip of its columns:
    for tiles along the rows, along which the source is contiguous:
        load rows, transpose, store rows
"""

from __future__ import annotations

from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Block, Buffer, Expr, Function, Load, Stmt, Store, Var
from ..nest.register_transpose import interleaved, transposed
from ..schedule.transpose import TransposeTiles
from .loops import loop_nest


def transpose_tiles(
    name: str, x: Buffer, y: Buffer, shape: TransposeTiles, block: int, tasks: int, note: str
) -> Function:
    """The function (x, y) of flat buffers, in blocks of `block` rows; strips are shared among `tasks`."""
    return Function(name, (x, y), Block((_Tiles(x, y, shape, block).nest(tasks),)), note)


class _Tiles:
    """The parts of the nest."""

    def __init__(self, x: Buffer, y: Buffer, shape: TransposeTiles, block: int) -> None:
        self.x, self.y, self.shape = x, y, shape
        last = len(shape.dims) - 1
        self.outer = [axis for axis in range(last) if axis != shape.along]
        self.rows, self.columns = shape.dims[shape.along], shape.dims[last]
        lanes = shape.lanes
        self.block = min(-(-block // lanes), -(-self.rows // lanes)) * lanes
        self.out_strides = [1] * len(shape.dims)
        for axis in reversed(range(last)):
            self.out_strides[axis] = self.out_strides[axis + 1] * shape.dims[axis + 1]

    def nest(self, tasks: int) -> Stmt:
        """The loop over strips and outer indices."""
        b = t.LoopBuilder((self.x.name, self.y.name, "strip"))
        strip, shape = Var("strip"), self.shape
        strips = -(-self.columns // shape.strip)
        rest = b.let("rest", strip // strips)
        column = b.let("column", strip % strips * shape.strip)
        source: Expr = column * shape.strides[-1]
        target: Expr = column
        blocks = -(-self.rows // self.block)
        first = b.let("first", rest % blocks * self.block)
        rest = b.let("rest", rest // blocks)
        total = strips * blocks
        for axis in reversed(self.outer):
            size = shape.dims[axis]
            index = rest % size
            source = source + index * shape.strides[axis]
            target = target + index * self.out_strides[axis]
            rest = b.let("rest", rest // size)
            total *= size
        at = b.let("source", source), b.let("target", target)
        whole, edge = divmod(self.columns, shape.strip)
        if whole and edge:
            with b.when(column < whole * shape.strip):
                self._strip(b, at, first, shape.strip)
            with b.otherwise():
                self._strip(b, at, first, edge)
        else:
            self._strip(b, at, first, edge or shape.strip)
        return loop_nest([strip], [total], b.body(), False, tasks)

    def _strip(self, b: t.LoopBuilder, at: tuple[Expr, Expr], first: Expr, columns: int) -> None:
        """All tiles of a strip of `columns`, in the block that begins with the row `first`."""
        lanes = self.shape.lanes
        whole, edge = divmod(self.rows, lanes)
        with b.block():
            if whole:
                end = t.minimum(first + self.block, whole * lanes)
                with b.loop("row", first, end, step=lanes) as row:
                    self._line(b, at, row, lanes, columns)
            if edge:
                is_last = first + self.block >= self.rows
                with b.when(is_last):
                    self._line(b, at, t.as_expr(whole * lanes), edge, columns)

    def _line(
        self, b: t.LoopBuilder, at: tuple[Expr, Expr], row: Expr, rows: int, columns: int
    ) -> None:
        """Store adjacent register tiles, `rows` of the result from `row` on."""
        along = self.out_strides[self.shape.along]
        source, target = at[0] + row, at[1] + row * along
        for first in range(0, columns, self.shape.lanes):
            part = source + first * self.shape.strides[-1], target + first
            with b.block():
                self._tile(b, part, rows, min(self.shape.lanes, columns - first))

    @property
    def _is_narrow(self) -> bool:
        """Return whether the rows of a tile lie one behind the other in the result, and are best made as
        whole vectors."""
        is_dense = self.out_strides[self.shape.along] == self.columns
        is_woven = self.columns.bit_count() == 1 or self.columns <= self.shape.woven
        return is_dense and self.columns < self.shape.lanes and is_woven

    def _tile(self, b: t.LoopBuilder, at: tuple[Expr, Expr], rows: int, columns: int) -> None:
        """One register tile; at edges only `rows` lanes are read and `columns` written."""
        lanes, stride = self.shape.lanes, self.shape.strides[-1]
        along = self.out_strides[self.shape.along]

        def bind(value: Expr) -> Expr:
            return b.let("v", value)

        read = rows if rows < lanes else None
        loads = [bind(Load(self.x, (at[0] + i * stride,), lanes, read)) for i in range(columns)]
        if rows == lanes and self._is_narrow:
            for i, vector in enumerate(interleaved(loads, bind)):
                b.emit(Store(self.y, (at[1] + i * lanes,), vector))
            return
        filled = [*loads, *[loads[-1]] * (lanes - columns)]
        vectors = transposed(filled, self.x.dtype, bind)
        written = columns if columns < lanes else None
        for i, vector in enumerate(vectors[:rows]):
            b.emit(Store(self.y, (at[1] + along * i,), vector, written))
