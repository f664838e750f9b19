"""`graphc convert`: what it prints, and what it refuses."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from graphc.cli import main
from support.cli_models import free, layer
from support.process import ROOT

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_text(folder: Path, capsys: Capture) -> None:
    model = layer(folder)
    assert main(["convert", model, "--to", "hlo"]) == 0
    assert capsys.readouterr().out == f"read      {model} (onnx, 3 ops)\nwrote     layer.hlo\n"
    assert main(["convert", model, "-o", "sub.json"]) == 0
    assert capsys.readouterr().out.endswith("wrote     sub.json, sub.params\n")
    assert main(["convert", "layer.hlo", "--to", "dfg.json"]) == 0
    assert capsys.readouterr().out == "read      layer.hlo (hlo)\nwrote     layer.dfg.json\n"


def test_what_is_printed_of_a_dump_reads_it(folder: Path, capsys: Capture) -> None:
    assert main(["convert", layer(folder), "-o", "d.txt"]) == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert line == "read it   d.txt --input 'x=f32[4,8]' --constant @d.txt.params"
    words = shlex.split(line)[2:]
    assert main(["compile", *words, "--run", "-q"]) == 0
    assert main(["convert", *words, "--to", "onnx", "-o", "again"]) == 0
    assert os.path.getsize("again") > 100


def test_json_and_dynamic_shapes(folder: Path, capsys: Capture) -> None:
    model = free(folder)
    assert main(["convert", model, "--to", "pnnx", "--json", "-i", "x=f32[5,3]"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "from": "onnx",
        "to": "pnnx",
        "files": ["free.param", "free.bin"],
        "arguments": [],
        "inputs": {"x": "f32[5,3]"},
        "outputs": ["f32[5,3]"],
        "ops": 1,
    }


def test_refusals(folder: Path, capsys: Capture) -> None:
    model = layer(folder)
    for words, message in (
        ([], "give the format with --to, or the file to write with -o"),
        (["-o", model], f"the output '{model}' must not replace a file that the command reads; give another path"),
        (["-o", "m.pnnx", "--to", "pnnx"],
         "'m.pnnx': the name of a PNNX model must end in .param, like linear.pnnx.param"),
        (["--to", "hlo", "--constant", "@none.params"],
         "there is no file 'none.params'; check its name and its folder"),
        (["--to", "hlo", "--constant", "w"], "--constant must be NAME=@file.npy, got 'w'"),
    ):  # fmt: skip
        assert main(["convert", model, *words, "-q"]) == 2
        assert capsys.readouterr().err == f"graphc: error: {message}\n"
    assert main(["convert", str(ROOT / "no.onnx"), "--to", "hlo"]) == 2
