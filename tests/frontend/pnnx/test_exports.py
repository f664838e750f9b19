"""Networks exported by the pnnx tool: compiled, run, and compared with PyTorch; skipped where either is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphc import cli
from graphc.driver.compiler import compile as compile_model
from support.tolerance import assert_close

pytest.importorskip("torch")
pytest.importorskip("pnnx")

# The tool's own Python loads modules in ways that newer versions warn about.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name", ["mlp", "convnet", "residual", "separable", "lstm", "encoder", "unet"]
)
def test_an_exported_network(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from support.torch_exports import export

    path, x, expected = export(name, tmp_path)
    capfd.readouterr()
    assert cli.main(["compile", str(path), "--run", "--threads", "1"]) == 0
    assert capfd.readouterr().out.splitlines()[-1].startswith(f"ok: {name} ")
    results = compile_model(path, threads=1)(x)
    several = list(results) if isinstance(results, (list, tuple)) else [results]
    for mine, theirs in zip(several, expected, strict=True):
        assert_close(np.asarray(mine), theirs, 8)
