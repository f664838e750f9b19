"""Every example runs, in a separate folder, and without a warning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.process import ROOT, run_python

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
    assert set(re.findall(r"^\| \[`(\w+\.py)`\]", text, re.M)) == {path.name for path in SCRIPTS}
    assert len(SCRIPTS) >= 8
