"""Blockings of products and convolutions, through one door."""

from __future__ import annotations

import pytest

from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph, Op
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.schedule.blockings import (
    asking,
    blocked_op,
    blocking_of,
    offered_blockings,
    predicted_cycles,
)
from graphc.graph_ir.schedule.query_format import query_format
from support.lowered import context


def op_of(op_name: str, *shapes: tuple[int, ...]) -> Op:
    graph = Graph(op_name)
    inputs = [graph.make_input(LogicalTensor(F32, shape)) for shape in shapes]
    op = graph.make(op_name, inputs)
    choice = query_format(op, context())[0]
    for tensor, fmt in zip(op.inputs, choice.inputs, strict=True):
        tensor.details = tensor.details.with_format(fmt)
    op.outputs[0].details = op.outputs[0].details.with_format(choice.outputs[0])
    return op


@pytest.mark.parametrize(
    "op",
    [
        op_of("matmul_core", (40, 16), (16, 30)),
        op_of("direct_convolution", (1, 24, 9, 9), (40, 24, 3, 3)),
        op_of("direct_convolution", (1, 3, 9, 9), (40, 3, 3, 3)),
    ],
)
def test_what_is_offered_can_be_asked_for(op: Op) -> None:
    ctx, blocked = context(), blocked_op(op)
    assert blocked is not None
    offered = offered_blockings(blocked, ctx)
    assert offered[0] == blocking_of(blocked, ctx) and len(offered) > 3
    for blocking in offered:
        assert blocking_of(blocked, asking(blocked, blocking, ctx)) == blocking
        assert predicted_cycles(blocked, blocking, ctx) > 0


def test_other_ops_have_none() -> None:
    assert blocked_op(op_of("relu", (2, 2))) is None
