"""Copies of operands that products read: panels of B, panels with groups of k, converted rows of A."""

from __future__ import annotations

from ...base.dtypes import DType
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Block, Buffer, Expr, For, LoopKind, Stmt, Store, Var
from .operand import Operand


def pack_panels(
    source: Operand, start: Expr, local: Buffer, k: int, n: int, columns: int
) -> list[Stmt]:
    """Copy the k x n matrix at `start` into panels of `columns`; unused columns of the last one become zero.

    Elements are converted to the type of `local`.
    """
    full, rest = divmod(n, columns)
    i, j, panel = Var("pk"), Var("pj"), Var("pp")

    def copy(first: Expr, width: int) -> Stmt:
        column = t.add(t.mul(first, columns), j)
        offset = t.add(t.mul(i, source.row), t.mul(column, source.col))
        value = t.cast(t.load(source.buffer, (t.add(start, offset),)), local.dtype)
        place = t.add(t.mul(first, k * columns), t.add(t.mul(i, columns), j))
        return loop(j, width, Store(local, (place,), value), "vector")

    row: list[Stmt] = [loop(panel, full, copy(panel, columns), "serial")] if full else []
    row += [copy(t.as_expr(full), rest)] if rest else []
    # Row by row, so that the source is read in the order it lies in memory, which is what prefetchers follow.
    body: list[Stmt] = [loop(i, k, Block(tuple(row)), "serial")]
    if rest:  # whole vectors of the last panel are read, so all of it must be defined
        z = Var("pz")
        zero = Store(local, (t.add(z, full * k * columns),), t.const(0, local.dtype))
        body.insert(0, loop(z, k * columns, zero, "vector"))
    return body


def pack_groups(
    source: Operand, start: Expr, local: Buffer, k: int, n: int, columns: int, group: int
) -> list[Stmt]:
    """Copy the k x n matrix at `start` into one panel of `columns`, `group` neighbouring k innermost, the rest zero."""
    i, j, z = Var("pk"), Var("pj"), Var("pz")
    groups = -(-k // group)
    zero = Store(local, (z,), t.const(0, local.dtype))
    body: list[Stmt] = []
    if n < columns or k % group:
        body.append(loop(z, groups * columns * group, zero, "vector"))

    def copy(first: Expr, count: int) -> Stmt:
        """`count` k from `first` on, which is the first of a group."""
        column = t.add(start, t.mul(j, source.col))
        place = t.add(t.mul(first, columns), t.mul(j, group))
        stores = []
        for r in range(count):
            at = t.add(column, t.mul(t.add(first, r), source.row))
            stores.append(Store(local, (t.add(place, r),), t.load(source.buffer, (at,))))
        return loop(j, n, Block(tuple(stores)), "serial")

    if k // group:
        body.append(loop(i, k // group, copy(t.mul(i, group), group), "serial"))
    if k % group:
        body.append(copy(t.as_expr(k - k % group), k % group))
    return body


def convert_rows(
    source: Operand, start: Expr, rows: int, k: int, dtype: DType, lanes: int
) -> tuple[Operand, Stmt]:
    """(the rows x k matrix at `start` in `dtype` in a local buffer, which the caller allocates; the copy).

    The axis that lies together in memory does so in the copy; vectors are aligned, and the rows are no power of two
    apart, which would map them to one set of the cache.
    """
    by_rows = source.col == 1
    outer, inner = (rows, k) if by_rows else (k, rows)
    stride = (-(-inner // lanes) + 1) * lanes
    local = Buffer("a_block", dtype, (outer * stride,), "local")
    i, j = Var("ak"), Var("aj")
    at = t.add(start, t.add(t.mul(i, source.row if by_rows else source.col), j))
    value = t.cast(t.load(source.buffer, (at,)), dtype)
    copy = loop(j, inner, Store(local, (t.add(t.mul(i, stride), j),), value), "vector")
    none = (0,) * len(source.batch_strides)
    row, col = (stride, 1) if by_rows else (1, stride)
    return Operand(local, none, row, col), loop(i, outer, copy, "serial")


def loop(var: Var, size: int, body: Stmt, kind: LoopKind) -> For:
    """for var in range(size): body."""
    return For(var, t.as_expr(0), t.as_expr(size), body, kind)
