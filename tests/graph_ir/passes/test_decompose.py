from __future__ import annotations

import pytest

from graphc.base.errors import InternalError
from graphc.graph_ir.ir.attributes import BoolAttr
from graphc.graph_ir.ir.graph import Array, Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.op_kinds import CompositeOp
from graphc.graph_ir.ir.operands import Operand
from graphc.graph_ir.ir.registry import register
from graphc.graph_ir.passes.decompose import decompose
from support.graphs import CONTEXT, graph_of, run_pass

SOFTMAX = """
    %x = Node[type=input] () -> f32[3,5]
    %y = Node[type=softmax] (inputs = (x=%x), attrs = {axis: -1}) -> f32[3,5]
    %z = Node[type=relu] (inputs = (x=%y)) -> f32[3,5]
    return (u=%z, v=%y)
    """


@register("test_nested")
class Nested(CompositeOp):
    """softmax, or with `wrong` a tensor of another shape."""

    x = Operand()
    wrong = BoolAttr()

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        return [inputs[0]]

    def reference(self, inputs: list[Array]) -> list[Array]:
        graph = Graph()
        return graph.make("softmax", [graph.make_input(self.inputs[0].details)]).reference(inputs)

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        if self.wrong:
            return graph.make("reduce_sum", self.inputs).outputs
        return graph.make("softmax", self.inputs).outputs


def test_softmax_becomes_its_parts() -> None:
    graph = graph_of(SOFTMAX)
    assert run_pass(decompose, graph, exact=False)
    assert [op.op_name for op in graph.ops] == [
        "input", "reduce_max", "sub", "exp", "reduce_sum", "div", "relu", "output", "output",
    ]  # fmt: skip
    assert not run_pass(decompose, graph)


def test_composites_inside_composites() -> None:
    graph = graph_of(SOFTMAX.replace("softmax", "test_nested").replace(", attrs = {axis: -1}", ""))
    assert run_pass(decompose, graph, exact=False)
    assert not any(isinstance(op, CompositeOp) for op in graph.ops)


def test_a_wrong_decomposition_is_an_internal_error() -> None:
    graph = graph_of(SOFTMAX.replace("softmax", "test_nested").replace(", attrs = {axis: -1}", ""))
    graph.ops[1].set_attr("wrong", True)
    with pytest.raises(
        InternalError, match=r"test_nested 'y': f32\[3,5\] was decomposed into f32\[\]"
    ):
        decompose(graph, CONTEXT)
