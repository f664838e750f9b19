"""Small ONNX files for tests of the command line, and a wrong kernel to plant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphc.graph_ir.ir.computation import Pointwise
from graphc.graph_ir.ir.registry import lookup
from support.onnx_models import model, node


def layer(folder: Path) -> str:
    """y[4,5] = relu(x[4,8] @ w + b), with integer weights."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.integers(-4, 5, (8, 5)).astype(np.float32),
        "b": rng.integers(-4, 5, 5).astype(np.float32),
    }
    nodes = [node("MatMul", "x w", "p"), node("Add", "p b", "s"), node("Relu", "s")]
    return _write(folder / "layer.onnx", nodes, {"x": [4, 8]}, weights)


def tiny(folder: Path) -> str:
    """y = relu(-x) of shape [2,3]: no matmuls, so quick to verify."""
    return _write(
        folder / "tiny.onnx", [node("Neg", "x", "n"), node("Relu", "n")], {"x": [2, 3]}, {}
    )


def free(folder: Path) -> str:
    """y = x + x of shape [batch,3]."""
    return _write(folder / "free.onnx", [node("Add", "x x")], {"x": ["batch", 3]}, {})


def _write(path: Path, nodes: list, inputs: dict, weights: dict) -> str:  # type: ignore[type-arg]
    path.write_bytes(model(nodes, inputs, weights).SerializeToString())
    return str(path)


def plant_wrong_relu(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the code of relu, but not its reference, is the identity."""
    wrong = Pointwise(lambda reads, index: reads[0](index))
    monkeypatch.setattr(lookup("relu"), "computation", lambda op: wrong)
