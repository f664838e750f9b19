"""`graphc inspect ops`."""

from __future__ import annotations

import json

import pytest

from graphc.cli import main
from support.process import ROOT

LINEAR = str(ROOT / "examples" / "linear.pnnx.param")
Capture = pytest.CaptureFixture[str]


def test_the_text(capsys: Capture) -> None:
    assert main(["inspect", "ops", LINEAR, "--nodes", "*linear*"]) == 0
    assert capsys.readouterr().out == (
        "nn.Linear linear\n"
        "  params      bias=True (type 1) in_features=32 (type 2) out_features=128 (type 2)\n"
        "  attribute   @bias (128)f32 (type 1)\n"
        "  attribute   @weight (128,32)f32 (type 1)\n"
        "  input       0 (4,32)f32 (type 1) from pnnx_input_0\n"
        "  output      1 (4,128)f32 (type 1) to F.sigmoid_0\n"
    )


def test_json_of_another_format(capsys: Capture) -> None:
    model = str(ROOT / "examples" / "mlp.onnx")
    assert main(["inspect", "ops", model, "--nodes", "fc1.add", "--json"]) == 0
    (facts,) = json.loads(capsys.readouterr().out)
    assert facts["attributes"] == {"b": "f32[512] fc1.bias"}
    assert [x["producer"] for x in facts["inputs"]] == ["fc1"]


def test_a_pattern_without_a_match(capsys: Capture) -> None:
    assert main(["inspect", "ops", LINEAR, "--nodes", "none"]) == 2
    assert capsys.readouterr().err == (
        f"graphc: error: no operator of '{LINEAR}' matches 'none'; leave --nodes out to list all\n"
    )
