import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.pipeline import run
from graphc.graph_ir.passes.sink_transposes import sink_transposes
from graphc.graph_ir.rewriting.groups import is_view
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target
from support.expressions import graph_from
from support.graphs import run_pass

TO_CHANNELS_FIRST, TO_CHANNELS_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


class Net:
    """Convolutions of a format that keeps channels last, written with the op that has them first."""

    def __init__(self) -> None:
        self.graph = Graph("net")
        self.rng = np.random.default_rng(3)

    def input(self, *dims: int) -> GraphTensor:
        return self.graph.make_input(LogicalTensor(F32, dims), "x")

    def constant(self, *dims: int) -> GraphTensor:
        return self.graph.make_constant(self.rng.standard_normal(dims).astype(np.float32), "c")

    def make(self, name: str, *inputs: GraphTensor, **attrs: object) -> GraphTensor:
        return self.graph.make(name, inputs, attrs).outputs[0]

    def convolution(self, x: GraphTensor, outputs: int) -> GraphTensor:
        first = self.make("transpose", x, perm=TO_CHANNELS_FIRST)
        weights = self.constant(outputs, x.details.plain_dims[3], 3, 3)
        y = self.make("convolution", first, weights, before=(1, 1), after=(1, 1))
        return self.make("transpose", y, perm=TO_CHANNELS_LAST)

    def result(self, *tensors: GraphTensor) -> Graph:
        for tensor in tensors:
            self.graph.make_output(tensor)
        return self.graph


def direct(graph: Graph) -> Graph:
    """Without `transpose` and `convolution` being told apart: what the pass sees as made by a tunable op."""
    from graphc.graph_ir.passes.select_convolution_algorithm import select_convolution_algorithm

    select_convolution_algorithm(graph, LowerContext(Target("avx512")))
    return graph


def names(graph: Graph) -> list[str]:
    return [op.op_name for op in graph.ops if op.kind not in ("source", "sink")]


def small() -> Net:
    return Net()


def test_elementwise_ops_come_before_the_transpose() -> None:
    net = small()
    y = net.convolution(net.input(1, 28, 28, 64), 64)
    y = net.make("relu", net.make("add", y, net.constant(64)))
    y = net.convolution(y, 64)
    graph = direct(net.result(y))
    assert run_pass(sink_transposes, graph)
    found = [name for name in names(graph) if name in ("transpose", "add", "relu")]
    assert found == ["transpose", "add", "relu", "transpose"]


def test_operands_that_are_transposed_alike_are_joined_before() -> None:
    net = small()
    x = net.convolution(net.input(1, 28, 28, 64), 64)
    y = net.convolution(net.make("relu", x), 64)
    graph = direct(net.result(net.make("relu", net.make("add", y, x))))
    assert run_pass(sink_transposes, graph)
    found = [name for name in names(graph) if name in ("transpose", "add", "relu")]
    assert found == ["transpose", "relu", "add", "relu", "transpose"]


def test_an_operand_that_is_not_transposed_keeps_the_transpose_where_it_is() -> None:
    net = small()
    x = net.input(1, 28, 28, 64)
    graph = direct(net.result(net.make("add", net.convolution(x, 64), x)))
    assert not sink_transposes(graph, LowerContext(Target("avx512")))


def test_transposes_of_anything_else_stay() -> None:
    net = small()
    x = net.make("transpose", net.input(2, 3, 4, 5), perm=TO_CHANNELS_LAST)
    graph = net.result(net.make("relu", x))
    assert not sink_transposes(graph, LowerContext(Target("avx512")))


@pytest.mark.parametrize("isa", ["avx512", "avx2"])
def test_a_network_that_keeps_channels_last_is_not_moved_at_all(isa: str) -> None:
    net = small()
    y = net.input(1, 14, 14, 64)
    for _ in range(3):
        y = net.make("relu", net.make("add", net.convolution(y, 64), net.constant(64)))
    graph = net.result(y)
    x = np.random.default_rng(0).standard_normal((1, 14, 14, 64)).astype(np.float32)
    (wanted,) = graph.evaluate([x])
    run(graph, LowerContext(Target(isa)))
    moving = [op for op in graph.ops if op.op_name in ("transpose", "reorder") and not is_view(op)]
    assert moving == []
    np.testing.assert_allclose(graph.evaluate([x])[0], wanted, rtol=1e-3, atol=1e-3)


def test_past_a_reshape_of_a_matmul():
    shapes = {"x": (6, 4), "w": (4, 5), "b": (1, 1, 2)}
    moved = "transpose(reshape(matmul_core(x, w), shape=(2, 3, 5)), perm=(1, 2, 0))"
    graph = graph_from(f"relu(add({moved}, b))", **shapes)
    assert run_pass(sink_transposes, graph)
    assert graph.outputs[0].inputs[0].producer_owner.op_name == "transpose"
