"""A matrix operand of a template: where each of its elements lies in a flat buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.records import dataclass
from ...tensor_ir.nodes import Buffer, Expr, Var


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
