"""Typed matmuls, convolutions and attention of awkward sizes between guard pages: exact, nothing else is touched."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import BF16, F16, F64, S8, S32, U8, DType
from graphc.codegen.host import host_supports
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Array, Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tools.fuzz.guarded import Edge, guarded, guarded_copy
from support.lowered import integers

ISAS = [isa for isa in ("avx512", "avx2") if host_supports(isa)]
TYPES = (F64, F16, BF16, U8, S8)
EDGES: tuple[Edge, ...] = ("start", "end")
SIZES = ((1, 1, 1), (7, 15, 3), (33, 49, 5))


def values(shape: tuple[int, ...], dtype: DType, seed: int) -> Array:
    array = integers(shape, seed)
    return (array if dtype.is_signed else np.abs(array)).astype(dtype.numpy)


class Cases:
    """A graph of many small cases, each with separate inputs and a separate output."""

    def __init__(self, dtype: DType) -> None:
        self.graph = Graph("cases")
        self.dtype, self.weights = dtype, dtype if dtype.is_float else S8
        self.attrs = {} if dtype.is_float else {"dtype": S32}
        self.arrays: list[Array] = []

    def add(
        self, op_name: str, a: tuple[int, ...], b: tuple[int, ...], constant: bool, **attrs: object
    ) -> None:
        """One op of two operands."""
        number = len(self.graph.outputs)
        operands = [self.operand(a, self.dtype)]
        weights = values(b, self.weights, number)
        if constant:
            operands.append(self.graph.make_constant(weights))
        else:
            operands.append(self.operand(b, self.weights))
        y = self.graph.make(op_name, operands, {**attrs, **self.attrs}).outputs[0]
        self.graph.make_output(y, f"y{number}")

    def operand(self, shape: tuple[int, ...], dtype: DType) -> GraphTensor:
        """An input, and its values."""
        self.arrays.append(values(shape, dtype, len(self.arrays)))
        return self.graph.make_input(LogicalTensor(dtype, shape), f"x{len(self.arrays)}")

    def check(self, isa: str, exact: bool = True) -> None:
        """Run between guard pages, with one thread and with two, which give the same bits."""
        expected = self.graph.evaluate(self.arrays)
        found: list[list[Array]] = []
        for at, threads in zip(EDGES, (1, 2), strict=True):
            model = compile_model(self.graph, target=isa, threads=threads)
            inputs = [guarded_copy(a, at) for a in self.arrays]
            outputs = [guarded(e.shape, e.dtype, at) for e in expected]
            model.bind({t.name: a for t, a in zip(model.inputs, inputs, strict=True)}, outputs)()
            found.append(outputs)
        for first, second, wanted in zip(*found, expected, strict=True):
            np.testing.assert_array_equal(first, second)
            if exact:
                np.testing.assert_array_equal(first, wanted)


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_matmuls(isa: str, dtype: DType) -> None:
    cases = Cases(dtype)
    for m, n, k in SIZES:
        for constant in (True, False):
            cases.add("matmul_core", (m, k), (k, n), constant)
            cases.add("matmul_core", (m, k), (n, k), constant, transpose_b=True)
    cases.check(isa)


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_convolutions(isa: str, dtype: DType) -> None:
    cases, border = Cases(dtype), {"before": (1, 1), "after": (1, 1)}
    for channels, outputs in ((1, 17), (7, 9), (16, 33)):
        cases.add("convolution", (1, channels, 6, 5), (outputs, channels, 3, 3), True, **border)
        cases.add("convolution", (2, channels, 4, 7), (outputs, channels, 1, 1), True)
        cases.add(
            "convolution", (1, channels, 5, 5), (outputs, channels, 3, 2), True, strides=(2, 1)
        )
        cases.add("convolution", (1, channels, 4, 4), (outputs, channels, 2, 2), False)
        own = (channels, 1, 3, 3)
        cases.add("convolution", (1, channels, 5, 9), own, True, groups=channels, **border)
    cases.check(isa)


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", TYPES[:3], ids=str)
def test_attention(isa: str, dtype: DType) -> None:
    cases = Cases(dtype)
    make = cases.graph.make
    for rows, columns, depth in ((2, 1, 1), (7, 9, 5), (13, 33, 17)):
        q, k, v = (cases.operand((2, n, depth), dtype) for n in (rows, columns, columns))
        scores = make("matmul_core", [q, k], {"transpose_b": True}).outputs[0]
        weights = make("softmax", [scores], {"axis": -1}).outputs[0]
        cases.graph.make_output(make("matmul_core", [weights, v]).outputs[0], f"y{rows}")
    cases.check(isa, exact=False)
