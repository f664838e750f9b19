"""The division of a softmax over a dynamic size happens after the matmul; all others stay where they are."""

from __future__ import annotations

import pytest

from graphc import Graph
from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.decompose import decompose
from graphc.graph_ir.passes.defer_division import defer_division
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target

S = size(Symbol("S"))
CONTEXT = LowerContext(Target("avx2"), CompileOptions())


def weighed(keys: Size, twice: bool = False) -> Graph:
    graph = Graph("weighed")
    scores = graph.make_input(LogicalTensor(F32, (3, S, keys)), "scores")
    values = graph.make_input(LogicalTensor(F32, (3, keys, 8)), "values")
    weights = graph.make("softmax", [scores], {"axis": -1}).outputs[0]
    graph.make_output(graph.make("matmul_core", [weights, values]).outputs[0], "y")
    if twice:
        graph.make_output(weights, "weights")
    decompose(graph, CONTEXT)
    return graph


def test_the_matmul_is_divided() -> None:
    graph = weighed(S)
    assert defer_division(graph, CONTEXT)
    last = graph.outputs[0].inputs[0].producer_owner
    assert last.op_name == "div"
    matmul, total = (x.producer_owner for x in last.inputs)
    assert (matmul.op_name, total.op_name) == ("matmul_core", "reduce_sum")
    assert matmul.inputs[0] is total.inputs[0] and matmul.inputs[0].producer_owner.op_name == "exp"


@pytest.mark.parametrize("graph", [weighed(40), weighed(S, twice=True)])
def test_others_stay(graph: Graph) -> None:
    assert not defer_division(graph, CONTEXT)
