"""Every example runs, in a separate folder, and without a warning."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import graphc
from support.c_programs import needs
from support.process import ROOT, run_cli, run_python

SCRIPTS = sorted(
    path for path in (ROOT / "examples").glob("*.py") if path.name != "make_examples.py"
)
PACKAGES = {"scikit-learn": "sklearn"}
"""Modules that do not have the name of their package."""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_runs(script: Path, tmp_path: Path) -> None:
    for line in re.findall(r"`pip install ([^`]*)`", script.read_text(encoding="utf-8")):
        for package in line.split():
            pytest.importorskip(PACKAGES.get(package, package))
    done = run_python("-W", "error", str(script), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


def test_the_table_of_examples_is_complete() -> None:
    text = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| \[`(\w+\.\w+)`\]", text, re.M)) == {
        *(path.name for path in SCRIPTS),
        "classify.c",
    }
    assert len(SCRIPTS) >= 8


@pytest.mark.parametrize("rows", [0, 2, 32])
def test_the_program_in_c_prints_the_classes(tmp_path: Path, rows: int) -> None:
    needs("cc")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    text = (ROOT / "examples" / "classify.c").read_text(encoding="utf-8")
    compiled, built = re.findall(r"^ \*     ((?:graphc|cc) .*)$", text, re.M)
    assert run_cli(*compiled.split()[1:], cwd=tmp_path).returncode == 0
    subprocess.run(
        [*built.split(), "-Wall", "-Wextra", "-Werror", "-pedantic"], cwd=tmp_path, check=True
    )

    x = np.zeros((32, 13), np.float32)
    x[:rows] = np.arange(1, rows * 13 + 1, dtype=np.float32).reshape(rows, 13)
    numbers = " ".join(f"{value:g}" for value in x[:rows].flat)
    done = subprocess.run(
        ["./classify"], cwd=tmp_path, input=numbers, capture_output=True, text=True, check=True
    )
    scores = graphc.compile(ROOT / "examples" / "mlp.onnx")(x)
    expected = [f"row {row}: class {best}" for row, best in enumerate(scores[:rows].argmax(1))]
    assert done.stdout.splitlines() == expected
