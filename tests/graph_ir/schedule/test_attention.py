"""Schedules of attention: whole rows or blocks, tasks, prefetching; each computes the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Graph, GraphTensor, Op
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.schedule import Schedule, parse_schedule
from graphc.graph_ir.lowering.lower_graph import lower_graph
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.schedule.attention import MAX_ROWS, AttentionSpace
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.spaces import space_of
from graphc.tensor_ir.nodes import Brgemm, For
from graphc.tensor_ir.visitor import walk
from support.lowered import Make, build, context, integers, interpret

CTX = context(threads=2)


def attention(extra: bool = False) -> Graph:
    """Three heads of 11 rows and 13 columns; with `extra` work that a softmax by blocks cannot do."""

    def body(make: Make, x: dict[str, GraphTensor]) -> GraphTensor:
        scores = make("softmax", make("matmul_core", x["q"], x["k"]), axis=-1)
        scores = make("softmax", scores, axis=-1) if extra else scores
        return make("matmul_core", scores, x["v"])

    return build({"q": (3, 11, 5), "k": (3, 5, 13), "v": (3, 13, 7)}, body)


def kernel(graph: Graph, ctx: LowerContext = CTX) -> tuple[Graph, Op, AttentionSpace]:
    work = graph.copy()
    pipeline.run(work, ctx)
    (op,) = [op for op in work.ops if op.op_name == "fused"]
    space = space_of(op, ctx)
    assert isinstance(space, AttentionSpace)
    return work, op, space


def run(graph: Graph, ctx: LowerContext) -> np.ndarray:
    arrays = [integers(op.outputs[0].details.plain_dims, i) for i, op in enumerate(graph.inputs)]
    result = np.zeros((3, 11, 7), np.float32)
    interpret(lower_graph(graph, ctx), arrays, [result])
    return result


def test_every_schedule_computes_the_same() -> None:
    graph = attention()
    work, op, space = kernel(graph)
    for name, values in space.choices.items():
        assert {s.word(name) for s in space.candidates} == set(values)
    (expected,) = graph.evaluate(
        [integers(x.outputs[0].details.plain_dims, i) for i, x in enumerate(graph.inputs)]
    )
    shared = parse_schedule(
        "attention softmax=whole rows=4 columns=13 mr1=4 nv1=1 mr2=4 nv2=1 split=rows prefetch=head "
        "use=fma"
    )
    for schedule in (*space.candidates, shared):
        op.schedule = space.check(schedule)
        np.testing.assert_allclose(run(work, CTX), expected, rtol=1e-5)


@pytest.mark.parametrize(("requested", "tasks"), [("split=heads", 1), ("split=rows rows=4", 2)])
@pytest.mark.parametrize("softmax", ["whole", "online"])
def test_tasks_are_heads_or_blocks_of_rows(softmax: str, requested: str, tasks: int) -> None:
    eager = replace(CTX.target, machine=replace(CTX.target.machine, parallel_multiply_adds=1))
    wanted = parse_schedule(f"softmax={softmax} {requested}")
    work, op, space = kernel(attention(), replace(CTX, target=eager))
    op.schedule = space.complete(wanted)
    (function, _) = lower_graph(work, replace(CTX, target=eager)).module.functions
    assert sum(isinstance(x, For) and x.kind == "parallel" for x in walk(function.body)) == tasks


def test_nothing_is_fetched_ahead_when_requested() -> None:
    work, op, space = kernel(attention())
    for prefetch, has_hints in (("head", True), ("none", False)):
        op.schedule = space.complete(Schedule.of("", prefetch=prefetch))
        (function, _) = lower_graph(work, CTX).module.functions
        assert any(isinstance(x, Brgemm) and x.prefetch for x in walk(function.body)) == has_hints


@pytest.mark.parametrize(
    ("extra", "requested", "message"),
    [
        (True, "softmax=online prefetch=none", "softmax=online needs a softmax alone"),
        (False, "softmax=half", "softmax must be whole or online"),
        (False, "columns=5", "columns must be all 13 with softmax=whole"),
        (False, "softmax=online columns=14", "columns must be at most 13"),
        (False, "softmax=online prefetch=head", "prefetch must be none with softmax=online"),
        (False, "rows=12", "rows must be at most 11"),
        (False, "split=columns", "split must be heads or rows"),
        (False, "mr1=99", "mr1 x nv1 must be at most 64"),
    ],
)
def test_what_cannot_run_is_refused(extra: bool, requested: str, message: str) -> None:
    _, _, space = kernel(attention(extra))
    with pytest.raises(UserError, match=message):
        space.complete(parse_schedule(requested))


def test_rows_of_few_columns_fit_the_stack() -> None:
    """A dynamic number of rows of one column: their locals take as much as the scores."""
    n = size(Symbol("N", 0, 1 << 20))
    graph = Graph("narrow")
    q, v = (graph.make_input(LogicalTensor(F32, (1, rows, 1))) for rows in (n, 1))
    k = graph.make_constant(np.ones((1, 1, 1), np.float32))
    scores = graph.make("matmul_core", (q, k)).outputs[0]
    scores = graph.make("softmax", (scores,), {"axis": -1}).outputs[0]
    graph.make_output(graph.make("matmul_core", (scores, v)).outputs[0])
    _, _, space = kernel(graph)
    assert space.pick.number("rows") <= MAX_ROWS
