"""The example models are those their script makes, and mean what onnx says they mean."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx

from graphc.frontend import load
from support.onnx_models import expected
from support.process import ROOT
from support.tolerance import assert_close

MLP = ROOT / "examples" / "mlp.onnx"


def test_the_script_makes_the_same_bytes(tmp_path: Path) -> None:
    script = ROOT / "examples" / "make_examples.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True)
    for made in tmp_path.iterdir():
        assert made.read_bytes() == (ROOT / "examples" / made.name).read_bytes()
        assert made.stat().st_size < 1_500_000


def test_the_mlp(rng: np.random.Generator) -> None:
    x = rng.standard_normal((32, 13)).astype(np.float32)
    (y,) = load(MLP).evaluate([x])
    assert_close(y, expected(onnx.load(MLP), {"x": x})[0], factor=16)
