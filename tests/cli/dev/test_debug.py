"""`graphc dev debug` writes what `graphc inspect dump` reads."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest

from graphc.cli import main
from support.process import ROOT

MLP = str(ROOT / "examples" / "mlp.onnx")


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("dump")
    assert main(["dev", "debug", MLP, "-q", "--dump-root", str(folder), "--repeats", "1"]) == 0
    return str(folder)


def test_json_has_a_row_per_node_and_the_dump_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["dev", "debug", MLP, "--json", "--nodes", "relu[12]*"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in found["nodes"]] == ["relu1.fused", "relu2.fused"]
    assert Path(found["dump"]).parent.parent == tmp_path
    assert (Path(found["dump"]) / "output_tensors.params").is_file()


def test_an_artifact_runs_node_by_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(tmp_path / "mlp.gcm")
    assert main(["compile", MLP, "-q", "-o", model, "--target", "avx2"]) == 0
    arguments = ["--dump-root", str(tmp_path), "--repeats", "1", "-q"]
    assert main(["dev", "debug", model, *arguments]) == 0
    out = capsys.readouterr().out
    assert re.search(r"relu2.fused  f32_gemm_add_relu_\w+__avx2 ", out)


def test_inspect_lists_compares_and_saves(
    dump: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", "dump", dump, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[0]["type"] == "f32[32,13]" and rows[0]["min"] < 0 < rows[0]["max"]
    assert (
        main(
            [
                "inspect",
                "dump",
                dump,
                "--nodes",
                "relu3*",
                "--against",
                dump,
                "--output-dir",
                str(tmp_path),
            ]
        )
        == 0
    )
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["name", "type", "min", "max", "mean", "difference", "file"]
    (file,) = tmp_path.glob("*.npy")
    assert np.load(file).shape == (32, 128)


def test_inspect_tells_a_difference_and_nan(
    dump: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from graphc.frontend.tvm.params import write_params

    write_params(tmp_path / "a.params", {"x": np.array([1.0, np.nan], np.float32)})
    write_params(tmp_path / "b.params", {"x": np.array([2.0, np.nan], np.float32)})
    words = ["inspect", "dump", str(tmp_path / "a.params")]
    assert main([*words, "--against", str(tmp_path / "a.params")]) == 0
    assert main([*words, "--against", str(tmp_path / "b.params"), "--values"]) == 1
    assert "[ 1. nan]" in capsys.readouterr().out
    assert main([*words, "--against", dump]) == 1
    assert main([*words, "--nodes", "y"]) == 2
    assert main(["inspect", "dump", str(tmp_path)]) == 2
