"""`graphc explain`: layouts, schedules, fusion, memory and passes of a model, as text and JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphc.cli import main
from support.process import ROOT

MLP = str(ROOT / "examples" / "mlp.onnx")
Capture = pytest.CaptureFixture[str]


def explain(capsys: Capture, *words: str) -> Any:
    assert main(["explain", MLP, *words, "--target", "avx2", "--threads", "1", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_model_is_its_kernels_its_memory_and_what_was_not_fused(capsys: Capture) -> None:
    whole = explain(capsys)
    assert [kernel["source"] for kernel in whole["kernels"]] == [
        [f"fc{i}", f"fc{i}.add", f"relu{i}"] for i in (1, 2, 3)
    ]
    assert all(kernel["layouts"] and kernel["schedule"] for kernel in whole["kernels"])
    assert len(whole["not_fused"]) == 2 and "relu1, fc2" in whole["not_fused"][0]
    memory = whole["memory"]
    assert memory["arena_bytes"] >= memory["lower_bound"] > 0
    assert len(memory["blocks"]) == 2


def test_a_node_has_candidates_costs_and_one_winner(capsys: Capture) -> None:
    facts = explain(capsys, "fc1")
    (chosen,) = [c for c in facts["layouts"] if c["chosen"]]
    assert len(facts["layouts"]) > 1
    assert chosen["cost"] == min(c["cost"] for c in facts["layouts"])
    (schedule,) = [s for s in facts["schedules"] if s["chosen"]]
    assert schedule["by"] == "the cost model" and schedule["cycles"] > 0
    assert facts["became"] == ["relu1.fused"]
    assert any("fc1.weight.reorder" in d and "folded" in d for d in facts["decisions"])
    assert any("anchor fc1" in d for d in facts["decisions"])
    assert "arena[" in facts["memory"][0]


def test_the_map_goes_both_ways(capsys: Capture) -> None:
    (kernel,) = explain(capsys, "relu2", "--tensor-ir")["kernels"]
    back = explain(capsys, kernel["kernel"], "--tensor-ir")
    assert back["calls"][0]["source"] == ["fc2", "fc2.add", "relu2"]
    assert kernel["kernel"] in back["tensor_ir"][0]


def test_passes_say_what_each_removed(capsys: Capture) -> None:
    passes = explain(capsys, "--passes")
    fuse = next(p for p in passes if p["pass"] == "fuse")
    assert fuse["before"] - fuse["after"] == 6 and "relu relu1" in fuse["removed"]
    assert main(["explain", MLP, "--passes", "-X", "no-fuse"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["pass", "before", "after", "removed"]
    assert any("fuse" in line and "(switched off)" in line for line in lines)


@pytest.mark.parametrize("words", [[], ["fc2"], ["relu3", "--tensor-ir"]])
def test_text(words: list[str], capsys: Capture) -> None:
    assert main(["explain", MLP, *words]) == 0
    assert "f32_gemm" in capsys.readouterr().out


def test_a_value_of_the_file_stands_for_the_op_that_makes_it(capsys: Capture) -> None:
    assert explain(capsys, "relu1.out")["node"] == "relu1"


def test_an_unknown_node_is_told(capsys: Capture) -> None:
    assert main(["explain", MLP, "nobody"]) == 2
    assert "the model's nodes are fc1, fc1.add" in capsys.readouterr().err
