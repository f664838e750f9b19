"""Views: the offsets of an operand's elements."""

from __future__ import annotations

from graphc.base.dtypes import F32
from graphc.graph_ir.nest.problem import View
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Buffer, Var


def test_batch_axes_move_by_their_strides_and_broadcast_where_those_are_zero() -> None:
    view = View(Buffer("x", F32, (24,)), {"b0": 12, "b1": 0, "m": 3, "k": 1})
    i, j = Var("i"), Var("j")
    assert view.of_batch((i, j), t.as_expr(5)).base == (i * 12 + 5)
    assert view.of_batch((t.as_expr(1), j), t.as_expr(5)).base == t.as_expr(17)


def test_panels_are_as_far_apart_as_their_size() -> None:
    view = View(Buffer("x", F32, (64,)), {"k": 8, "n": 1}, {"n": (8, 32)})
    assert view.panel(t.ONE).base == t.as_expr(32)
