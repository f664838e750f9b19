"""`graphc inspect diff`: text, JSON, values and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphc.cli import main
from graphc.graph_ir.text.printer import print_graph
from support.networks import attention, perceptron
from support.process import ROOT

MLP = str(ROOT / "examples" / "mlp.onnx")
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.graph").write_text(print_graph(perceptron(), full=True))
    return "m.graph"


def test_the_same_network_in_other_formats(model: str, capsys: Capture) -> None:
    for target in ("m.onnx", "m.param", "m.json", "m.txt"):
        assert main(["convert", model, "-o", target]) == 0
    capsys.readouterr()
    for target in ("m.onnx", "m.param", "m.json"):
        assert main(["inspect", "diff", model, target]) == 0
        assert capsys.readouterr().out == "the graphs are the same\n"
    words = ["--input", "x=f32[4,13]", "--constant", "@m.txt.params", "--values"]
    assert main(["inspect", "diff", "m.txt", "m.json", *words]) == 0
    assert capsys.readouterr().out == (
        "values of output agree: max error 0\nthe graphs are the same\n"
    )


def test_hlo_is_the_same_in_the_normal_form(model: str, capsys: Capture) -> None:
    assert main(["convert", model, "-o", "m.hlo"]) == 0
    capsys.readouterr()
    assert main(["inspect", "diff", model, "m.hlo", "--json", "--values"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["same"] and not facts["parts"]
    assert facts["values"] == [{"output": "y", "max_error": pytest.approx(0, abs=1e-7), "ok": True}]
    Path("a.graph").write_text(print_graph(attention(), full=True))
    assert main(["convert", "a.graph", "-o", "a.hlo"]) == 0
    assert main(["inspect", "diff", "a.graph", "a.hlo", "--simplified"]) == 0


def test_what_differs(model: str, capsys: Capture) -> None:
    text = Path(model).read_text().replace("type=relu", "type=tanh")
    Path("t.graph").write_text(text)
    assert main(["inspect", "diff", model, "t.graph", "--values"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "they differ at relu and tanh",
        "  < %act0 : [#users=1] = Node[type=relu] (inputs = (x=%add)) -> f32[4,32]",
        "  > %act0 : [#users=1] = Node[type=tanh] (inputs = (x=%add)) -> f32[4,32]",
    ]
    assert lines[3].startswith("values of y differ: max error ")
    assert lines[4:] == ["the graphs differ"]


def test_other_arguments_have_no_values_to_compare(model: str, capsys: Capture) -> None:
    assert main(["inspect", "diff", MLP, str(ROOT / "examples" / "mha.onnx"), "--values"]) == 1
    out = capsys.readouterr().out
    assert "only in " in out and "input 'mask' f32[2,1,1,24]" in out and "values" not in out


def test_wrong_use(model: str, capsys: Capture) -> None:
    assert main(["inspect", "diff", model, "none.onnx"]) == 2
    assert "none.onnx" in capsys.readouterr().err
