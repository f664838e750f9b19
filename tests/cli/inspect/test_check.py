"""`graphc inspect check`: what would be refused or slow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from onnx import TensorProto, helper

from graphc.cli import main
from support.onnx_models import model, node
from support.process import ROOT

Capture = pytest.CaptureFixture[str]


def test_a_model_that_compiles(capsys: Capture) -> None:
    assert main(["inspect", "check", str(ROOT / "examples" / "mlp.onnx")]) == 0
    assert capsys.readouterr().out.startswith("compiles  mlp: 9 ops, 0.0")


def test_what_is_refused_has_the_error_of_compile(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "strange.onnx"
    path.write_bytes(model([node("NoSuchOp", "x")], {"x": [2]}).SerializeToString())
    assert main(["inspect", "check", str(path)]) == 3
    assert "these ops are not supported: NoSuchOp (1x)" in capsys.readouterr().err


def test_what_is_slow_and_what_each_run_checks(capsys: Capture, tmp_path: Path) -> None:
    proto = model(
        [
            node("MatMul", "x x", "p"),
            node("TopK", "p k", "v i"),
            node("ScatterElements", "p i v", "s", axis=0),
            node("Tile", "s r"),
        ],
        {"x": [200, 200], "k": [1], "r": [2]},
        dtypes={"x": TensorProto.DOUBLE, "k": TensorProto.INT64, "r": TensorProto.INT64},
    )
    del proto.graph.output[:]
    proto.graph.output.append(helper.make_tensor_value_info("y", TensorProto.DOUBLE, [400, 200]))
    proto.graph.value_info.append(
        helper.make_tensor_value_info("v", TensorProto.DOUBLE, [200, 100])
    )
    proto.graph.value_info.append(helper.make_tensor_value_info("i", TensorProto.INT64, [200, 100]))
    path = tmp_path / "slow.onnx"
    path.write_bytes(proto.SerializeToString())
    assert main(["inspect", "check", str(path)]) == 0
    text = capsys.readouterr().out
    assert "slow      matmul_core 'p'" in text and "computed in f64" in text
    assert "orders 200 elements by comparing each with all others" in text
    assert "updates are made one after the other" in text
    assert text.count("each run  checks: ") == 2 and "'r' must be [2, 1]" in text
    assert main(["inspect", "check", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {slow["type"] for slow in facts["slow"]} == {"matmul_core", "top_k", "scatter_elements"}
