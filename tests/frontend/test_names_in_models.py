"""Models of each format whose names mean something elsewhere: they are written, read, compiled and run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc.base.printable import encodable
from graphc.frontend import load
from graphc.frontend.formats import FORMATS
from graphc.frontend.ge import written_names
from graphc.frontend.tvm.params import read_params
from graphc.graph_ir.ir.graph import Graph
from support.names import ROWS, named
from support.onnx_models import model, node

EXACT = ("onnx", "tvm", "graph")
"""Formats that hold any name of an input."""


def reread(graph: Graph, target: str, folder: Path) -> Graph:
    """The graph, written and read."""
    path = folder / f"m{FORMATS[target].suffix}"
    files = FORMATS[target].write(graph, path)
    if target != "ge":
        return load(path)
    specs = {op.name: str(op.outputs[0].details) for op in written_names(graph).inputs}
    return load(path, specs, read_params(files[1]))


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["onnx", "hlo", "pnnx", "tvm", "ge", "graph"])
@pytest.mark.parametrize("names", ROWS, ids=range(len(ROWS)))
def test_written_and_read(target: str, names: tuple[str, ...], tmp_path: Path) -> None:
    graph = named(names.__getitem__)
    graph.sort()
    again = reread(graph, target, tmp_path)
    arrays = [np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8), np.ones((4, 16), np.float32)]
    for mine, right in zip(again.evaluate(arrays), graph.evaluate(arrays), strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-5)
    inputs = [[op.name for op in g.inputs] for g in (graph, again)]
    if target in EXACT:
        assert inputs[1] == [encodable(n) if target == "onnx" else n for n in inputs[0]]
    results = graphc.compile(again, "avx2")(*arrays)
    np.testing.assert_allclose(results[0], graph.evaluate(arrays)[0], rtol=1e-5)


def test_the_parameters_of_a_sequential() -> None:
    nodes = [node("Gemm", "input 20.weight 20.bias", "21"), node("Relu", "21", "22")]
    weights = {"20.weight": np.eye(4, dtype=np.float32), "20.bias": np.ones(4, np.float32)}
    compiled = graphc.compile(model(nodes, {"input": [2, 4]}, weights, outputs=["22"]))
    np.testing.assert_array_equal(compiled(np.full((2, 4), -3, np.float32)), np.zeros((2, 4)))


@pytest.mark.parametrize("target", ["onnx", "tvm"])
def test_results_of_one_name_are_told_apart(target: str, tmp_path: Path) -> None:
    graph = named(str, lambda _: "y")
    assert [op.attrs["temp.result"] for op in load(graph).outputs] == ["y", "y_1"]
    assert len({op.attrs["temp.result"] for op in reread(graph, target, tmp_path).outputs}) == 2
