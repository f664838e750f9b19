"""Loops that collect rows write them where they lie, if nothing else looks at the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from graphc.base.dtypes import F32, S64
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.control import While
from graphc.graph_ir.passes.plan_memory import MEMORY_PLAN
from graphc.graph_ir.passes.update_in_place import update_in_place
from graphc.runtime.executor import CompiledModel
from support.control import constant, made, make_while
from support.graphs import run_pass

ROWS, ROW, INDEX = LogicalTensor(F32, (7, 4)), LogicalTensor(F32, (1, 4)), LogicalTensor(S64, ())
Step = Callable[[Graph, GraphTensor, GraphTensor, GraphTensor], Sequence[GraphTensor]]


def update(g: Graph, rows: GraphTensor, row: GraphTensor, i: GraphTensor) -> GraphTensor:
    return made(g, "update_slice", rows, row, i, axes=(0,))


def loop(step: Step) -> Graph:
    """(row, rows) after n rounds; `step` gives the new ones from row, rows and the number of the round."""
    graph = Graph("g")
    n, row, rows = (
        graph.make_input(d, name) for d, name in ((INDEX, "n"), (ROW, "row"), (ROWS, "rows"))
    )
    op = make_while(
        graph, [constant(graph, 0), row, rows, n],
        lambda g, i, row, rows, n: [made(g, "lt", i, n)],
        lambda g, i, row, rows, n: [made(g, "add", i, constant(g, 1)), *step(g, row, rows, i)],
    )  # fmt: skip
    graph.make_output(op.outputs[1])
    graph.make_output(op.outputs[2])
    return graph


def twice(g: Graph, row: GraphTensor) -> GraphTensor:
    return made(g, "add", row, row)


STEPS: dict[str, tuple[Step, bool]] = {
    "written and returned": (lambda g, a, r, i: [twice(g, a), update(g, r, a, i)], True),
    "read elsewhere too": (
        lambda g, a, r, i: [made(g, "add", a, made(g, "reduce_max", r, axes=(0,), keep_dims=True)), update(g, r, a, i)],
        False,
    ),
    "the new rows are read": (
        lambda g, a, r, i: [made(g, "reduce_max", update(g, r, a, i), axes=(0,), keep_dims=True)] * 1
        + [update(g, r, a, i)],
        False,
    ),
    "changed before": (lambda g, a, r, i: [a, update(g, made(g, "neg", r), a, i)], False),
    "changed after": (lambda g, a, r, i: [a, made(g, "neg", update(g, r, a, i))], False),
}  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", STEPS)
def test_only_where_nothing_else_looks(name: str) -> None:
    step, expected = STEPS[name]
    graph = loop(step)
    rng = np.random.default_rng(0)
    row = rng.integers(-2, 3, (1, 4)).astype(np.float32)
    rows = rng.integers(-2, 3, (7, 4)).astype(np.float32)
    work = graph.copy()
    assert run_pass(update_in_place, work, inputs=[np.array(3), row, rows]) == expected
    (op,) = [op for op in work.ops if op.op_name == "while"]
    assert isinstance(op, While)
    assert op.in_place_state == ({2} if expected else set())
    for threads in (1, 2):
        made_ = compile_stages(graph, options=CompileOptions(threads, verify=True))
        model = CompiledModel(made_.artifact, threads)
        for n in (0, 1, 2, 5, 9):
            arrays = [np.array(n), row, rows]
            kept = rows.copy()
            for got, want in zip(model(*arrays), graph.evaluate(arrays), strict=True):
                np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(rows, kept)  # the caller's array is unchanged
        model.close()


def test_the_workspace_holds_no_second_copy() -> None:
    graph = loop(STEPS["written and returned"][0])
    sizes = {}
    for disabled in ((), ("in-place",)):
        stages = compile_stages(graph, "avx2", CompileOptions(1, frozenset(disabled)))
        sizes[disabled] = MEMORY_PLAN.of(stages.graph).arena_bytes
    assert sizes[()] + 7 * 4 * 4 <= sizes[("in-place",)]
