"""`graphc dev bisect`: prefixes of both pipelines."""

from __future__ import annotations

import json

import pytest

from graphc.cli import main
from support.cli_models import plant_wrong_relu, tiny
from support.process import ROOT

LINEAR = str(ROOT / "examples" / "linear.pnnx.param")
Capture = pytest.CaptureFixture[str]


def test_every_prefix_is_listed(capsys: Capture) -> None:
    assert main(["dev", "bisect", LINEAR, "--json", "--threads", "1"]) == 0
    passes = json.loads(capsys.readouterr().out)["passes"]
    assert {p["pipeline"] for p in passes} == {"graph", "loops"}
    assert all(p["ok"] for p in passes)
    assert ("loops", 0, "lowering") in {(p["pipeline"], p["number"], p["pass"]) for p in passes}


def test_a_wrong_kernel_is_wrong_from_its_lowering_on(
    tmp_path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_wrong_relu(monkeypatch)
    assert main(["dev", "bisect", tiny(tmp_path), "--threads", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("loops") and lines[-1].endswith("WRONG")
    assert all(line.endswith("ok") for line in lines if line.startswith("graph"))
