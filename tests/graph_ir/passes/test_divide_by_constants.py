"""Divisions by a constant: which are replaced, and what native code makes of them."""

import numpy as np
import pytest

from graphc.base.dtypes import F32, F64, S8, S32, S64, U8, U32, DType
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.divide_by_constants import divide_by_constants
from support.compiled import run_native
from support.lowered import context


def quotient(
    divisor: float, dtype: DType = F32, shape: tuple[int, ...] = (1,), **attrs: str
) -> Graph:
    graph = Graph("quotient")
    x = graph.make_input(LogicalTensor(dtype, (1024,)), "x")
    constant = graph.make_constant(np.full(shape, divisor, dtype.numpy), "divisor")
    graph.make_output(graph.make("div", [x, constant], attrs).outputs[0], "y")
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


@pytest.mark.parametrize("divisor", [0, -3, 2**24])
def test_integers_are_divided_by_small_positive_constants_only(divisor: int) -> None:
    assert not divide_by_constants(quotient(divisor, S32), context())


@pytest.mark.exhaustive
@pytest.mark.parametrize("rounding", ["floor", "trunc"])
@pytest.mark.parametrize("dtype", [S8, U8, S32, U32, S64])
@pytest.mark.parametrize("divisor", [1, 3, 7, 64, 100])
def test_integers_round_as_in_a_division(divisor: int, dtype: DType, rounding: str) -> None:
    graph = quotient(divisor, dtype, rounding=rounding)
    limits = np.iinfo(dtype.numpy)
    x = np.linspace(limits.min / 2, limits.max / 2, 1024).astype(dtype.numpy)
    x[:80] = np.arange(80) + (limits.min if limits.min else limits.max - 79)
    x[80:240] = np.arange(-80, 80).astype(dtype.numpy)
    x[240:320] = np.arange(limits.max - 79, limits.max + 1, dtype=np.uint64).astype(dtype.numpy)
    quotients, rests = zip(*(divmod(int(value), divisor) for value in x), strict=True)
    towards_0 = rounding == "trunc"
    expected = [q + (q < 0 and r != 0 and towards_0) for q, r in zip(quotients, rests, strict=True)]
    assert divide_by_constants(graph, context())
    (y,) = run_native(graph, [x])
    np.testing.assert_array_equal(y, np.array(expected, dtype.numpy))
