"""`graphc compare` as a command: verdicts, JSON, other engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphc.cli import main
from support.process import ROOT

MLP = str(ROOT / "examples" / "mlp.onnx")
LINEAR = str(ROOT / "examples" / "linear.pnnx.param")
Capture = pytest.CaptureFixture[str]


def test_a_right_model(capsys: Capture) -> None:
    assert main(["compare", MLP, "-q"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("ok: ") and "values agree with numpy" in line


def test_another_engine_comes_first(capsys: Capture) -> None:
    assert main(["compare", MLP, "--against", "onnx-reference", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["against"]) == ["onnx-reference", "numpy"]
    assert all(side["finding"] is None for side in found["against"].values())
    assert found["against"]["onnx-reference"]["checked"] == 6
    assert found["reproducer"] is None


def test_other_engines_take_onnx_only(capsys: Capture) -> None:
    pytest.importorskip("onnxruntime")
    assert main(["compare", LINEAR, "--against", "ort", "-q"]) == 2
    assert "take ONNX models only" in capsys.readouterr().err


def test_text_of_a_graph_is_a_model(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "bad.graph").write_text("no graph")
    assert main(["compare", str(tmp_path / "bad.graph"), "-q"]) == 2
    assert main(["compare", str(tmp_path / "none.graph"), "-q"]) == 2
    assert "; check its name and its folder" in capsys.readouterr().err
