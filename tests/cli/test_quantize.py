"""graphc convert --calibrate: from a model and samples to a model in 8 bits, and its sentences."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from graphc.cli import main

MODEL = str(Path(__file__).parents[2] / "examples" / "mlp.onnx")


@pytest.fixture
def samples(tmp_path: Path) -> str:
    path = tmp_path / "inputs.npz"
    np.savez(path, x=np.random.default_rng(0).standard_normal((64, 13)).astype(np.float32))
    return str(path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["min-max", "percentile", "mse"])
def test_written(
    samples: str, method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "small.onnx")
    arguments = ["convert", MODEL, "--calibrate", samples, "-o", out, "--method", method]
    assert main([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert len(facts["quantized"]) == 3 and 0 < facts["errors"]["y"] < 0.05
    assert main(["compare", out, "-q"]) == 0
    if method == "mse":
        assert main(arguments) == 0
        captured = capsys.readouterr()
        assert "3 ops in 8 bits" in captured.out and "y differs by" in captured.out
        assert "ranges" in captured.err and "check" in captured.err


def test_sentences(samples: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, text = str(tmp_path / "o.onnx"), tmp_path / "text.npz"
    text.write_text("no archive")
    cases = [
        ([MODEL, "--calibrate", str(tmp_path / "none.npz"), "-o", out], "there is no file"),
        ([MODEL, "--calibrate", str(text), "-o", out], "is not a .npz file of arrays of numbers"),
        ([MODEL, "--calibrate", samples, "-o", MODEL], "must not replace a file that the command reads"),
        ([MODEL, "--calibrate", samples, "-o", out, "--percentile", "0"], "--percentile must be above 0"),
        ([MODEL, "--calibrate", samples, "-o", str(tmp_path / "no" / "o.onnx")], "cannot write"),
        ([str(Path(MODEL).with_name("block.hlo")), "--calibrate", samples, "-o", out], "must be ONNX"),
    ]  # fmt: skip
    for arguments, message in cases:
        assert main(["convert", *arguments, "-q"]) == 2
        assert message in capsys.readouterr().err


def test_what_has_no_range_or_no_measure(
    samples: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A matmul of a constant stays; results that are not finite in one model only have no share."""
    path, out, random = tmp_path / "m.onnx", tmp_path / "o.onnx", np.random.default_rng(0)
    held = {name: random.standard_normal((13, 13)).astype(np.float32) for name in ("w", "c")}
    nodes = [
        helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(held["c"])),
        helper.make_node("MatMul", ["k", "w"], ["m"]),
        helper.make_node("MatMul", ["x", "m"], ["z"]),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Sqrt", ["h"], ["y"]),
    ]
    infos = [helper.make_tensor_value_info(name, 1, ["N", 13]) for name in "xyz"]
    weights = [numpy_helper.from_array(held["w"], "w")]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    arguments = ["convert", str(path), "--calibrate", samples, "-o", str(out), "-q"]
    assert main([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["quantized"] == ["h"] and facts["errors"] == {"y": None, "z": 0}
    assert main(arguments) == 0
    assert "1 op in 8 bits" in capsys.readouterr().out
