"""Libraries of models with unusual inputs and outputs, run under AddressSanitizer, and their examples."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphc
from support.c_programs import build, needs, run

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() != "x86_64",
    reason="libraries that run are ELF, and the programs are for this machine",
)

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
ROWS = np.arange(20).reshape(4, 5).astype(np.float32) % 3

Tensor = tuple[str, int, list[int | str]]

MODELS: dict[str, tuple[str, list[Tensor], Tensor, list[np.ndarray], list[int]]] = {
    "a size that the data decide": ("NonZero", [("x", FLOAT, [4, 5])], ("y", INT, [2, "K"]), [ROWS], []),
    "a condition on rows": (
        "Compress", [("x", FLOAT, [4, 5]), ("c", BOOL, [4])], ("y", FLOAT, ["K"]),
        [ROWS, np.array([True, False, True, True])], [],
    ),
    "no elements": ("Relu", [("x", FLOAT, [0, 3])], ("y", FLOAT, [0, 3]), [np.zeros((0, 3), np.float32)], []),
    "a scalar": ("Sum", [("x", FLOAT, [])], ("y", FLOAT, []), [np.array(3, np.float32)], []),
    "no kernel": ("Identity", [("x", INT, [7])], ("y", INT, [7]), [np.arange(7)], []),
    "two dynamic dimensions": (
        "Softmax", [("x", FLOAT, ["A", "B"])], ("y", FLOAT, ["A", "B"]), [ROWS], [4, 5],
    ),
    "names of other languages": (
        "Relu", [("größe in/mm", FLOAT, [3])], ("class", FLOAT, [3]), [np.array([-1, 0, 1], np.float32)], [],
    ),
}  # fmt: skip


def _model(node: str, inputs: list[Tensor], output: Tensor) -> onnx.ModelProto:
    names = [name for name, _, _ in inputs]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(node, names, [output[0]])], "odd", [value(*one) for one in inputs], [value(*output)]
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _check(model: onnx.ModelProto, arrays: list[np.ndarray], dims: list[int], folder: Path) -> None:
    compiled = graphc.compile(model, threads=1)
    graphc.export(compiled, folder, prefix="odd")
    program = build(folder, "odd", "odd.a", ("gcc", "-fsanitize=address,undefined"))
    status, data = run(program, arrays, dims)
    expected = compiled(*arrays).tobytes()
    assert status == 0 and data[: len(expected)] == expected
    for compiler, example in (("gcc", "example.c"), ("g++", "example.cpp")):
        needs(compiler)
        words = [compiler, "-Wall", "-Wextra", "-Werror", example, "odd.a", "-o", "example"]
        subprocess.run(words, cwd=folder, check=True)
        subprocess.run(["./example"], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize("kind", MODELS)
def test_a_library_and_its_examples_run(kind: str, tmp_path: Path) -> None:
    node, inputs, output, arrays, dims = MODELS[kind]
    _check(_model(node, inputs, output), arrays, dims, tmp_path)


def test_a_model_without_inputs(tmp_path: Path) -> None:
    values = numpy_helper.from_array(np.arange(3, dtype=np.float32), "a")
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "a"], ["y"])], "odd", [],
        [helper.make_tensor_value_info("y", FLOAT, [3])], [values],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21)]
    _check(helper.make_model(graph, opset_imports=opsets, ir_version=10), [], [], tmp_path)
