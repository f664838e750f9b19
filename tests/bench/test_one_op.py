"""Cases of one operator from a line of text: operands, constants, the work counted, and lines that are not calls."""

from __future__ import annotations

import ast

import numpy as np
import onnx
import pytest

from graphc.base.errors import InternalError
from graphc.bench.one_op import one_op_case
from graphc.bench.op_cases import op_lines


def initialisers(case_model: bytes) -> dict[str, np.ndarray]:
    graph = onnx.load_from_string(case_model).graph
    return {x.name: onnx.numpy_helper.to_array(x) for x in graph.initializer}


def test_operands_are_inputs_constants_or_left_out() -> None:
    case = one_op_case("r", 'Resize(f32[1, 2, 4, 4], None, [1.0, 1.0, 2.0, 2.0], mode="nearest")')
    node = onnx.load_from_string(case.onnx()).graph.node[0]
    assert list(node.input) == ["x0", "", "x2"]
    assert {name: a.shape for name, a in case.arrays().items()} == {"x0": (1, 2, 4, 4)}
    (scales,) = initialisers(case.onnx()).values()
    assert scales.dtype == np.float32 and scales.tolist() == [1, 1, 2, 2]


def test_makers_of_operands() -> None:
    case = one_op_case("g", "Gather(constant(f16[9, 4]), below(9, s64[50]))")
    (indices,) = case.arrays().values()
    assert indices.dtype == np.int64 and indices.min() >= 0 and indices.max() == 8
    assert initialisers(case.onnx())["x0"].dtype == np.float16
    values = one_op_case("t", "TopK(distinct(s64[3, 40]), [2], results=2)").arrays()["x0"]
    assert len(np.unique(values)) == 120
    assert one_op_case("l", "Log(positive(f32[64]))").arrays()["x0"].min() > 0
    zero = initialisers(one_op_case("d", "DequantizeLinear(u8[4], 0.5, u8(128))").onnx())["x2"]
    assert zero.dtype == np.uint8 and zero == 128


@pytest.mark.parametrize(
    ("line", "operations"),
    [
        ("MatMul(f32[5, 7], weight(f32[7, 3]))", 2 * 5 * 7 * 3),
        ("Conv(f32[1, 4, 6, 6], weight(f32[8, 2, 3, 3]), group=2)", 2 * 8 * 16 * 18),
        ("ConvTranspose(f32[1, 4, 5, 5], weight(f32[4, 2, 3, 3]))", 2 * 4 * 25 * 18),
        ("LSTM(f32[6, 2, 8], weight(f32[1, 16, 8]), weight(f32[1, 16, 4]), hidden_size=4)", 2 * 12 * 192),
        ("TopK(f32[16, 100], [5], results=2)", 0),
    ],
)  # fmt: skip
def test_work_counted(line: str, operations: int) -> None:
    assert one_op_case("case", line).op_gflop == pytest.approx(operations * 1e-9)


@pytest.mark.parametrize("line", ["3", "f.Relu(f32[4])"])
def test_a_line_that_is_no_call(line: str) -> None:
    with pytest.raises(InternalError, match="must be a call of an operator"):
        one_op_case("case", line)


def test_every_line_is_a_call_with_a_short_name() -> None:
    lines = op_lines()
    assert len(lines) >= 120
    assert max(map(len, lines)) <= 28
    assert all(isinstance(ast.parse(text, mode="eval").body, ast.Call) for text in lines.values())
    operators = {text.split("(")[0] for text in lines.values()}
    assert all(onnx.defs.has(name) for name in operators)
    assert len(operators) >= 60
