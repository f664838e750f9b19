"""A matrix operand of a template: where each of its elements lies in a flat buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.records import dataclass
from ...tensor_ir.nodes import Buffer, Expr, Var
from .problem import View

BLOCK = 16
"""Rows and columns of a block, of operands that lie in blocks."""


@dataclass(frozen=True)
class Operand:
    """A matrix per batch in a flat buffer: element (batch, i, j) is at sum(batch * strides) + i * row + j * col.

    With `panel` > 0 the matrix lies in panels of that many columns: (batch, k, n) is at
    batch part + (n // panel) * row_of_panels + k * panel + n % panel, where `row` is the size of one panel.
    """

    buffer: Buffer
    batch_strides: tuple[Any, ...]
    row: Any
    col: Any
    panel: int = 0


def offset_of(operand: Operand, batch: Sequence[Var], offset: Expr) -> Expr:
    """Return the offset in the operand's buffer of `offset` elements into the matrix of a batch index."""
    for var, stride in zip(batch, operand.batch_strides, strict=True):
        offset = offset + var * stride
    return offset


def matrix_view(operand: Operand, rows: str, columns: str, k_group: int = 1) -> View:
    """Return the view of a matrix with the axes `rows` and `columns` and batch axes before them.

    B in panels has `k_group` neighboring k together.
    """
    batch = {f"b{axis}": stride for axis, stride in enumerate(operand.batch_strides)}
    if not operand.panel:
        return View(operand.buffer, {**batch, rows: operand.row, columns: operand.col})
    width = operand.panel
    return View(operand.buffer, {**batch, rows: width, columns: 1}, {columns: (width, operand.row)})


def blocked_view(operand: Operand, rows: str, columns: str) -> View:
    """Return the view of a matrix in blocks of 16 by 16: B has neighboring k together, A and C neighboring columns."""
    batch = {f"b{axis}": stride for axis, stride in enumerate(operand.batch_strides)}
    inner, outer = (rows, columns) if rows == "k" else (columns, rows)
    blocks = {rows: (BLOCK, operand.row), columns: (BLOCK, BLOCK * BLOCK)}
    return View(operand.buffer, {**batch, outer: BLOCK, inner: 1}, blocks)
