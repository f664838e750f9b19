"""`graphc inspect MODEL --operators`; dumps are inspected in test_debug.py."""

from __future__ import annotations

import json

import pytest

from graphc.cli import main
from support.process import ROOT

LINEAR = str(ROOT / "examples" / "linear.pnnx.param")
Capture = pytest.CaptureFixture[str]


def test_the_text(capsys: Capture) -> None:
    assert main(["inspect", LINEAR, "*linear*", "--operators"]) == 0
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
    assert main(["inspect", model, "fc1.add", "--operators", "--json"]) == 0
    (facts,) = json.loads(capsys.readouterr().out)
    assert facts["attributes"] == {"b": "f32[512] fc1.bias"}
    assert [x["producer"] for x in facts["inputs"]] == ["fc1"]


def test_refusals(capsys: Capture) -> None:
    for words, message in (
        (["none"], f"no operator of '{LINEAR}' matches 'none'; without --nodes all are listed"),
        (["--values"], "--against, --save and --values are for dumps; --operators lists a model"),
    ):
        assert main(["inspect", LINEAR, *words, "--operators"]) == 2
        assert capsys.readouterr().err == f"graphc: error: {message}\n"
