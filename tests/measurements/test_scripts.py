"""The measuring scripts still run, on as little as they can measure."""

from __future__ import annotations

import pytest
from measurements.cliffs import cliffs

from support.every_op import OURS
from support.growing_ops import GROWTHS, NOT_GROWN, PATTERNS
from support.process import ROOT, run_python

SCRIPTS = {
    "call_overhead.py": (("--threads", "1"), "bound"),
    "cliffs.py": (("relu", "slices", "--most", "3", "--json"), '"op": "slices"'),
    "conversions.py": (("--help",), "NETWORK"),
    "damage.py": (("--count", "2"), "ge "),
    "dynamic_shapes.py": (("--help",), "--door"),
    "tool_files.py": (("--help",), "judge"),
    "gemma_tokens.py": (("--help",), "--tokens"),
    "kills.py": (("--help",), "--kills"),
    "dynamic_batches.py": (("--help",), "network"),
    "onnx_cases.py": (("--help",), "--native"),
    "torch_functions.py": (("torch.argmax",), "4 right"),
    "values.py": (("exp", "--types", "f32"), "1 ops: "),
    "steadiness.py": (("--cycles", "20", "--calls", "1000", "--sizes", "100"), "trimmed"),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("script", SCRIPTS)
def test_it_runs_and_prints_its_figures(script: str) -> None:
    arguments, word = SCRIPTS[script]
    done = run_python(str(ROOT / "tests" / "measurements" / script), *arguments)
    assert done.returncode == 0, done.stderr
    assert word in done.stdout


def test_every_op_grows_or_says_why_not() -> None:
    assert not set(GROWTHS) & set(NOT_GROWN)
    assert set(OURS) == {*GROWTHS, *NOT_GROWN}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [*GROWTHS, *PATTERNS])
def test_growths_make_graphs(name: str) -> None:
    """At sizes around those of vectors, whatever the op."""
    for growth in {**GROWTHS, **PATTERNS}[name].values():
        for n in (1, 2, 8):
            graph, arrays = growth.graph(name, n)
            assert len(graph.inputs) == len(arrays) and graph.outputs


def points(seconds: list[float], compiled: float = 0.1) -> list[dict[str, float]]:
    return [
        {"n": 2**i, "work": 2**i, "seconds": one, "compile": compiled * 2 ** (2 * i)}
        for i, one in enumerate(seconds)
    ]


def test_what_is_a_cliff() -> None:
    linear = [1e-3 * 2**i for i in range(6)]
    assert not list(cliffs(points(linear, 1e-6)))
    quadratic = [1e-3 * 4**i for i in range(6)]
    assert "run: 8.0 times from 1 to 8" in map(str, cliffs(points(quadratic, 1e-6)))
    jump = [*linear[:3], *(4 * one for one in linear[3:])]
    assert "jump: 4.0 times from 4 to 8" in map(str, cliffs(points(jump, 1e-6)))
    assert not list(cliffs(points([one * 1e-6 for one in jump], 1e-6))), "overheads of a call"
    found = list(cliffs(points(linear, 0.1)))
    assert found and all(one.kind == "compile" for one in found)
