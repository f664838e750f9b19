"""graphc quantize: from a model and samples to a model in 8 bits, and its sentences."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from graphc.cli import main

MODEL = str(Path(__file__).parents[2] / "examples" / "mlp.onnx")


@pytest.fixture
def samples(tmp_path: Path) -> str:
    path = tmp_path / "inputs.npz"
    np.savez(path, x=np.random.default_rng(0).standard_normal((64, 13)).astype(np.float32))
    return str(path)


@pytest.mark.parametrize("method", ["min-max", "percentile", "mse"])
def test_written(
    samples: str, method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "small.onnx")
    arguments = ["quantize", MODEL, "--calibrate", samples, "-o", out, "--method", method]
    assert main([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert len(facts["quantized"]) == 3 and 0 < facts["errors"]["y"] < 0.05
    assert main(["compare", out, "-q"]) == 0
    if method == "mse":
        assert main(arguments) == 0
        captured = capsys.readouterr()
        assert "3 products in 8 bits" in captured.out and "y differs by" in captured.out
        assert "ranges" in captured.err and "check" in captured.err


def test_sentences(samples: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, text = str(tmp_path / "o.onnx"), tmp_path / "text.npz"
    text.write_text("no archive")
    cases = [
        ([MODEL, "--calibrate", str(tmp_path / "none.npz"), "-o", out], "there is no file"),
        ([MODEL, "--calibrate", str(text), "-o", out], "is not a .npz file of arrays of numbers"),
        ([MODEL, "--calibrate", samples, "-o", MODEL], "is the model itself; give another file"),
        ([MODEL, "--calibrate", samples, "-o", out, "--percentile", "0"], "--percentile must be above 0"),
        ([MODEL, "--calibrate", samples, "-o", str(tmp_path / "no" / "o.onnx")], "cannot write"),
        ([str(Path(MODEL).with_name("block.hlo")), "--calibrate", samples, "-o", out], "must be ONNX"),
    ]  # fmt: skip
    for arguments, message in cases:
        assert main(["quantize", *arguments, "-q"]) == 2
        assert message in capsys.readouterr().err
