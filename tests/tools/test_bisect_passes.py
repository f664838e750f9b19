"""The kernel of a node is interpreted after every pass, that of a loop with all it calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.schedule.context import LowerContext
from graphc.tensor_ir import pipeline as loop_pipeline
from graphc.tensor_ir.nodes import If, Module, Stmt, While
from graphc.tensor_ir.visitor import Rewriter, map_functions
from graphc.tools.bisect_passes import blame_kernel, kernel_prefixes
from graphc.tools.error_bound import Expected, expected_outputs
from support.control import counted, made
from support.lowered import context


def rotated(g: Graph, a: GraphTensor, b: GraphTensor) -> list[GraphTensor]:
    return [b, made(g, "add", a, b)]


def loop_node(ctx: LowerContext) -> tuple[Op, list[Array], list[Expected]]:
    """The optimized loop of a model, what it is given and what must come out."""
    graph = counted([LogicalTensor(F32, (5,))] * 2, rotated)
    pipeline.run(graph, ctx)
    (node,) = [op for op in graph.ops if op.op_name == "while"]
    values: dict[GraphTensor, Any] = {
        op.outputs[0]: np.asarray(op.attrs["value"]) for op in graph.ops if op.op_name == "constant"
    }
    given = [np.array(5), np.arange(5, dtype=np.float32), np.ones(5, np.float32)]
    values.update((op.outputs[0], x) for op, x in zip(graph.inputs, given, strict=True))
    arrays = [values[x] for x in dict.fromkeys(node.inputs)]
    alone = Graph("alone")
    inputs = [alone.make_input(x.details, x.name) for x in node.inputs]
    for tensor in alone.make("while", inputs, node.attrs).outputs:
        alone.make_output(tensor)
    return node, arrays, expected_outputs(alone, [values[x] for x in node.inputs])


def test_a_loop_is_right_after_every_pass() -> None:
    ctx = context()
    prefixes = list(kernel_prefixes(*loop_node(ctx), ctx))
    assert prefixes[0].name == "lowering" and len(prefixes) > 2
    assert all(prefix.error.ok for prefix in prefixes)


class Once(Rewriter):
    """Runs a loop once at most."""

    def while_(self, s: While) -> Stmt:
        return If(s.condition, s.body)


def test_the_pass_that_spoils_a_loop_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(module: Module, target: object) -> Module:
        return map_functions(module, Once().function)

    passes = (*loop_pipeline.PASSES, spoil)
    monkeypatch.setattr(loop_pipeline, "PASSES", passes)
    ctx = context()
    blame = blame_kernel(*loop_node(ctx), ctx)
    assert (blame.stage, blame.culprit) == ("loop pass", "spoil")
