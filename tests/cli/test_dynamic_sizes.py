"""Commands on a model with a dynamic batch: they run it at the sizes that are requested, with the code for all."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from graphc import cli
from graphc.bench import measure
from support.cli_models import plant_wrong_relu
from support.onnx_models import model, node
from support.roofs import plant_roofs

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """y[N,5] = relu(x[N,8] @ w)."""
    monkeypatch.setattr(measure, "pin_to", lambda threads: None)
    monkeypatch.setattr(measure, "load_warning", lambda threads: None)
    monkeypatch.setenv("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
    plant_roofs(monkeypatch, tmp_path)
    path = tmp_path / "network.onnx"
    weights = {"w": np.random.default_rng(0).integers(-4, 5, (8, 5)).astype(np.float32)}
    nodes = [node("MatMul", "x w", "p"), node("Relu", "p")]
    path.write_bytes(model(nodes, {"x": ["N", 8]}, weights).SerializeToString())
    return str(path)


def printed(capsys: Capture, *words: str, code: int = 0) -> str:
    assert cli.main([*words, "--threads", "1"]) == code
    return capsys.readouterr().out


def test_profile_shows_the_sizes_it_was_taken_at(network: str, capsys: Capture) -> None:
    words = ("profile", network, "-q", "--seconds", "0.01")
    assert printed(capsys, *words, "--size", "N=7").splitlines()[1].endswith(", N=7")
    facts = json.loads(printed(capsys, *words, "--size", "N=7", "--json"))
    (kernel,) = facts["kernels"]
    assert facts["sizes"] == {"N": 7} and kernel["problem"] == "matmul m7n5k8 f32"
    assert kernel["gflop"] == pytest.approx(2 * 7 * 5 * 8 / 1e9, rel=0.2)
    assert kernel["nbytes"] > json.loads(printed(capsys, *words, "--json"))["kernels"][0]["nbytes"]


def test_report_is_of_the_sizes(network: str, tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "report.html"
    words = ("profile", network, "-q", "--seconds", "0.01", "--html", str(page))
    printed(capsys, *words, "--size", "N=7")
    assert "N = 7" in page.read_text()


def test_debug_has_the_shapes_of_the_sizes(network: str, tmp_path: Path, capsys: Capture) -> None:
    words = ("dev", "debug", network, "-q", "--dump-root", str(tmp_path / "dump"), "--size", "N=3")
    assert "(3, 5)" in printed(capsys, *words)


def test_compare_checks_the_code_for_all_sizes(
    network: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("compare", network, "-q", "--size", "N=3", "--reproducer", str(tmp_path / "r"))
    assert printed(capsys, *words).startswith("ok: ")
    assert "ok" in printed(capsys, "dev", "bisect", network, "--size", "N=3")
    plant_wrong_relu(monkeypatch)
    out = printed(capsys, *words, code=1)
    assert out.startswith("WRONG against numpy") and "relu" in out


def test_verify_runs_kernels_for_all_sizes(
    network: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphc.tools.variants.MAX_SCHEDULES", 2)
    out = printed(capsys, "dev", "verify", network, "-q", "--size", "N=3")
    assert " 0 mismatches" in out and re.search(r"^matmul m=1\.\.\d+n5k8 f32 ", out, re.M)
    plant_wrong_relu(monkeypatch)
    out = printed(capsys, "dev", "verify", network, "-q", "--size", "N=3", code=1)
    assert "MISMATCH" in out and " 0 mismatches" not in out


def test_bench_has_a_row_for_each_size(network: str, capsys: Capture) -> None:
    words = ("bench", network, "--rounds", "1", "--seconds", "0.01", "-q", "--json")
    rows = json.loads(printed(capsys, *words, "--size", "N=1", "--size", "N=6"))["rows"]
    assert [row["case"] for row in rows] == [
        "network.onnx n1", "network.onnx n6", "network.onnx in turn",
    ]  # fmt: skip
    assert all(row["same_bits"] for row in rows[:2])
    assert json.loads(printed(capsys, *words))["rows"][0]["case"] == "network.onnx n2"
    (row,) = json.loads(printed(capsys, *words, "--input", "x=f32[5,8]"))["rows"]
    assert row["case"] == "network.onnx" and row["same_bits"] is None


def test_an_artifact_runs_at_any_size(network: str, tmp_path: Path, capsys: Capture) -> None:
    saved = str(tmp_path / "any.gcm")
    printed(capsys, "compile", network, "-q", "-o", saved)
    assert printed(capsys, "run", saved, "--size", "N=4").startswith("y: f32[4,5]  ")
    np.save(tmp_path / "x.npy", np.ones((2, 8), np.float32))
    out = printed(capsys, "run", saved, "--input", f"x=@{tmp_path / 'x.npy'}")
    assert out.startswith("y: f32[2,5]  ")


def test_explain_convert_diff_and_text_keep_sizes_dynamic(
    network: str, tmp_path: Path, capsys: Capture
) -> None:
    assert "matmul" in printed(capsys, "explain", network)
    for suffix in ("graph", "onnx"):
        again = str(tmp_path / f"again.{suffix}")
        assert cli.main(["convert", network, "-o", again]) == 0
        assert cli.main(["inspect", "diff", network, again, "--values"]) == 0
        assert "agree: max error 0" in capsys.readouterr().out
        assert cli.main(["compile", again, "--run", "--size", "N=3", "--threads", "1"]) == 0
        assert "x: f32[N,8]" in capsys.readouterr().out
