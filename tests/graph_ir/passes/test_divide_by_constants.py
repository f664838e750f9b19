"""Divisions by a constant: which are replaced, and what native code makes of them."""

import numpy as np
import pytest

from graphc.base.dtypes import F32, F64, DType
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.divide_by_constants import divide_by_constants
from support.compiled import run_native
from support.lowered import context


def quotient(divisor: float, dtype: DType = F32, shape: tuple[int, ...] = (1,)) -> Graph:
    graph = Graph("quotient")
    x = graph.make_input(LogicalTensor(dtype, (1024,)), "x")
    constant = graph.make_constant(np.full(shape, divisor, dtype.numpy), "divisor")
    graph.make_output(graph.make("div", [x, constant]).outputs[0], "y")
    return graph


@pytest.mark.parametrize(
    ("divisor", "isa", "replaced"),
    [
        (3.0, "avx2", True),
        (-9.797959, "avx512", True),
        (3.0, "generic", False),  # no fused multiply-add
        (8.0, "avx2", False),  # a power of two
        (0.0, "avx2", False),
        (np.inf, "avx2", False),
        (np.nan, "avx2", False),
        (1e-38, "avx2", False),  # the reciprocal's second part would be denormal
    ],
)
def test_which_divisions_are_replaced(divisor: float, isa: str, replaced: bool) -> None:
    graph = quotient(divisor)
    assert divide_by_constants(graph, context(isa)) == replaced
    assert any(op.op_name == "div_constant" for op in graph.ops) == replaced


def test_other_types_and_divisors_that_differ_are_left() -> None:
    assert not divide_by_constants(quotient(3.0, F64), context())
    graph = quotient(3.0, shape=(1024,))
    assert divide_by_constants(graph, context()), "the same everywhere is one constant"


def test_native_code_divides_by_it() -> None:
    graph = quotient(-9.797959)
    x = np.linspace(-50, 50, 1024, dtype=np.float32)
    x[:3] = (np.inf, -np.inf, np.nan)
    (y,) = run_native(graph, [x])
    np.testing.assert_array_equal(y, x / np.float32(-9.797959))
