"""input, constant, output: where a graph begins and ends."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import ALL, F32, DType
from graphc.base.errors import UserError
from graphc.graph_ir.ir.format import parse_format
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.structure import Constant, Output


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_an_input_is_what_it_was_declared(dtype: DType) -> None:
    graph = Graph()
    x = graph.make_input(LogicalTensor(dtype, (2, 0)), "x")
    assert x.details == LogicalTensor(dtype, (2, 0))
    op = x.producer_owner
    assert (op.kind, op.name, op.inputs, op.get_gflop()) == ("source", "x", [], 0.0)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shape", [(), (2, 3), (0,)])
def test_a_constant_has_the_type_of_its_value(dtype: DType, shape: tuple[int, ...]) -> None:
    value = np.ones(shape).astype(dtype.numpy)
    graph = Graph()
    tensor = graph.make_constant(value, "c")
    op = tensor.producer_owner
    assert isinstance(op, Constant)
    assert tensor.details == LogicalTensor(dtype, shape)
    np.testing.assert_array_equal(op.value, value)
    np.testing.assert_array_equal(op.reference([])[0], value)
    assert (op.kind, op.get_gflop()) == ("source", 0.0)


def test_a_constant_may_lie_in_any_format_and_is_the_same_value() -> None:
    graph = Graph()
    fmt = parse_format("NK4n", "KN")
    value = np.arange(15, dtype=np.float32).reshape(3, 5)
    tensor = graph.make_constant(value, "w", fmt)
    assert tensor.details == LogicalTensor(F32, (3, 5), fmt)
    assert tensor.details.size_bytes == 3 * 8 * 4
    (reference,) = tensor.producer_owner.reference([])
    np.testing.assert_array_equal(reference, value)


def test_a_constant_of_a_foreign_type_is_refused() -> None:
    with pytest.raises(UserError) as error:
        Graph().make_constant(np.array(["text"]))
    assert str(error.value).startswith("NumPy dtype '<U4' has no graphc type; known are f64, f32,")


def test_a_format_of_another_rank_is_refused() -> None:
    with pytest.raises(UserError) as error:
        Graph().make_constant(np.zeros((2, 2, 2), np.float32), "w", parse_format("NK4n", "KN"))
    assert str(error.value).startswith("format 'NK4n' must have the axes of the tensor, ")


def test_an_output_knows_the_name_the_caller_uses() -> None:
    graph = Graph()
    x = graph.make_input(LogicalTensor(F32, (2,)), "y")
    op = graph.make_output(x, "y")
    assert isinstance(op, Output)
    assert op.name == "y_1", "names of ops are unique"
    assert op.result_name == "y"
    assert (op.kind, op.outputs, op.get_gflop()) == ("sink", [], 0.0)
    bare = graph.make("output", (x,), name="z")
    assert isinstance(bare, Output) and bare.result_name == "z"
