"""Pieces of one shape share a kernel wherever they begin; results are those of their references."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.lowering.shifted_slices import shifted
from support.lowered import context, lower

DIMS = (5, 40)
COUNT = 12


def source(graph: Graph) -> GraphTensor:
    return graph.make_input(LogicalTensor(F32, DIMS), "x")


def piece(graph: Graph, x: GraphTensor, row: int, column: int, step: int = 1) -> GraphTensor:
    attrs = {"starts": (row, column), "steps": (1, step), "sizes": (3, 4)}
    return graph.make("slice", [x], attrs).outputs[0]


def relu(graph: Graph, x: GraphTensor) -> GraphTensor:
    return graph.make("relu", [x]).outputs[0]


def alone(graph: Graph, x: GraphTensor, number: int) -> GraphTensor:
    return piece(graph, x, number % 3, 2 * number)


def fused(graph: Graph, x: GraphTensor, number: int) -> GraphTensor:
    return relu(graph, piece(graph, x, number % 3, 2 * number))


def of_two(graph: Graph, x: GraphTensor, number: int) -> GraphTensor:
    """Two pieces at the same distance from one another."""
    pieces = [
        piece(graph, x, number % 2 + 1, 2 * number + 3),
        piece(graph, x, number % 2, 2 * number + 6),
    ]
    return relu(graph, graph.make("sub", pieces).outputs[0])


@pytest.mark.parametrize("make", [alone, fused, of_two])
def test_pieces_share_a_kernel(make: object) -> None:
    assert callable(make)
    graph = Graph("pieces")
    x = source(graph)
    for number in range(COUNT):
        graph.make_output(make(graph, x, number))
    kernels = {call.kernel for call in lower(graph, context()).calls}
    assert len(kernels) == 1
    compare(graph)


def compare(graph: Graph) -> None:
    values = np.random.default_rng(1).integers(-9, 10, DIMS).astype(np.float32)
    for isa in ("native", "avx2"):
        found = compile_model(graph, target=isa).run(None, {"x": values})
        for y, expected in zip(found, graph.evaluate([values]), strict=True):
            np.testing.assert_array_equal(y, expected)


def test_what_reads_the_whole_input_too_is_left_as_it_is() -> None:
    graph = Graph("both")
    x = source(graph)
    whole = graph.make("slice", [x], {"starts": (0, 0), "sizes": (3, 4)}).outputs[0]
    mean = graph.make("reduce_mean", [x], {"axes": (0, 1), "keep_dims": True}).outputs[0]
    graph.make_output(graph.make("add", [piece(graph, x, 1, 7), mean]).outputs[0])
    graph.make_output(graph.make("add", [piece(graph, x, 2, 9), whole]).outputs[0])
    graph.make_output(piece(graph, x, 2, 39, -3))
    graph.make_output(relu(graph, piece(graph, x, 2, 39, -3)))
    compare(graph)


def test_backward_slices_begin_where_they_did() -> None:
    graph = Graph("backward")
    op = piece(graph, source(graph), 2, 39, -3).producer_owner
    assert shifted(op).op is op and not shifted(op).begins


def test_the_element_is_counted_in_memory() -> None:
    graph = Graph("forward")
    op = piece(graph, source(graph), 2, 9).producer_owner
    found = shifted(op)
    assert dict(found.begins) == {op.inputs[0]: 2 * DIMS[1] + 9}
    assert found.op.attrs["starts"] == (0, 0) and op.attrs["starts"] == (2, 9)
