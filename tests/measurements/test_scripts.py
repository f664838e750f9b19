"""The measuring scripts still run, on as little as they can measure."""

from __future__ import annotations

import pytest

from support.process import ROOT, run_python

SCRIPTS = {
    "call_overhead.py": (("--threads", "1"), "bound"),
    "conversions.py": (("--help",), "NETWORK"),
    "damage.py": (("--count", "2"), "ge "),
    "dynamic_shapes.py": (("--help",), "--door"),
    "kills.py": (("--help",), "--kills"),
    "open_batches.py": (("--help",), "network"),
    "onnx_cases.py": (("--help",), "--native"),
    "steadiness.py": (("--cycles", "20", "--calls", "1000", "--sizes", "100"), "trimmed"),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_it_runs_and_prints_its_figures(script: str) -> None:
    arguments, word = SCRIPTS[script]
    done = run_python(str(ROOT / "tests" / "measurements" / script), *arguments)
    assert done.returncode == 0, done.stderr
    assert word in done.stdout
