"""The offsets of an operand's elements."""

from __future__ import annotations

from graphc.base.dtypes import F32
from graphc.graph_ir.nest.operand import Operand, offset_of
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Buffer, Var


def test_batch_axes_move_by_their_strides_and_broadcast_where_those_are_zero() -> None:
    operand = Operand(Buffer("x", F32, (24,)), (12, 0), 3, 1)
    i, j = Var("i"), Var("j")
    assert offset_of(operand, (i, j), t.as_expr(5)) == (i * 12 + 5)
    assert offset_of(operand, (t.as_expr(1), j), t.as_expr(5)) == t.as_expr(17)  # type: ignore[arg-type]
