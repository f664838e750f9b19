"""`graphc explain`: layouts, schedules, fusion, memory and passes of a model, as text and JSON."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from graphc.cli import explain as stages
from graphc.cli import main
from graphc.targets.isa import Target
from graphc.tools.hot_loop.find import hot_loop
from graphc.tools.kernel_code import STAGES
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
    by_node = explain(capsys, "relu2", "--code", "tensor-ir,loops")
    (kernel,) = by_node["kernels"]
    by_kernel = explain(capsys, kernel["kernel"], "--code", "tensor-ir,loops")
    assert by_kernel["calls"][0]["source"] == ["fc2", "fc2.add", "relu2"]
    assert by_kernel["code"] == by_node["code"]
    assert kernel["kernel"] in by_node["code"][kernel["kernel"]]["tensor-ir"]


def test_code_has_every_stage(capsys: Capture) -> None:
    assert main(["explain", MLP, "fc2.add", "--code", "all", "--threads", "2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    ((name, code),) = facts["code"].items()
    assert tuple(code) == STAGES == stages.STAGES
    assert all(name in text for text in code.values())
    # The loop over blocks of rows runs on the pool: its body is a task, with a trampoline in LLVM IR.
    assert "__task0" not in code["tensor-ir"] and "__task0" in code["loops"]
    assert '__task0.task"(ptr %ctx, i64 %i)' in code["llvm"] and "__task0.task:" in code["asm"]
    assert "ret" in code["asm"] and ".cfi" not in code["asm"]


@pytest.mark.parametrize(
    ("isa", "widest"), [("avx512", "zmm"), ("avx2", "ymm"), ("generic", "xmm")]
)
def test_code_of_a_target_uses_its_widest_registers(isa: str, widest: str, capsys: Capture) -> None:
    """On any machine: nothing is run. The accumulators of the inner loop stay in registers."""
    assert main(["explain", MLP, "fc2", "--code", "asm", "--target", isa, "--json"]) == 0
    ((name, code),) = json.loads(capsys.readouterr().out)["code"].items()
    assert name.endswith(f"__{isa}")
    used = set(re.findall(r"%([xyz]mm)\d", code["asm"]))
    assert max(used) == widest
    multiply = "mulps" if isa == "generic" else "vfmadd"
    loop = hot_loop(code["asm"], Target(isa))
    assert sum(multiply in line and f"%{widest}" in line for line in loop.lines) >= 8
    assert loop.spills == 0


def test_passes_say_what_each_removed(capsys: Capture) -> None:
    passes = explain(capsys, "--passes")
    fuse = next(p for p in passes if p["pass"] == "fuse")
    assert fuse["before"] - fuse["after"] == 6 and "relu relu1" in fuse["removed"]
    assert main(["explain", MLP, "--passes", "-X", "no-fuse"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["pass", "before", "after", "removed"]
    assert any("fuse" in line and "(switched off)" in line for line in lines)


@pytest.mark.parametrize("words", [[], ["fc2"], ["relu3", "--code", "tensor-ir"]])
def test_text(words: list[str], capsys: Capture) -> None:
    assert main(["explain", MLP, *words]) == 0
    out = capsys.readouterr().out
    assert "f32_gemm" in out
    if not words:
        assert re.match(r"3 kernels, [\d.]+ GFLOP\n", out) and "matmul" in out
    if "--code" not in words:
        assert max(map(len, out.splitlines())) <= 100


def test_a_value_of_the_file_stands_for_the_op_that_makes_it(capsys: Capture) -> None:
    assert explain(capsys, "relu1.out")["node"] == "relu1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fc1", "--code", "x"], "--code must be of tensor-ir, loops, llvm, asm or all, got 'x'"),
        (
            ["--code", "asm"],
            "--code needs a NODE; `graphc explain MODEL` lists the nodes and kernels",
        ),
    ],
)
def test_refusals(words: list[str], message: str, capsys: Capture) -> None:
    assert main(["explain", MLP, *words]) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_node_is_told(capsys: Capture) -> None:
    assert main(["explain", MLP, "nobody"]) == 2
    assert "the model's nodes are fc1, fc1.add" in capsys.readouterr().err


def test_the_steps_of_a_matmul_lead_from_its_definition_to_its_kernel(capsys: Capture) -> None:
    steps = explain(capsys, "fc2", "--steps")
    assert [steps[i]["step"] for i in (0, 4)] == ["contraction", "reorder m0 k0 n0 m1 n1 k1"]
    assert "for k in range(0, 512)" in steps[0]["code"] and "brgemm" not in steps[0]["code"]
    assert "with brgemm(" in steps[-1]["code"]
    assert main(["explain", MLP, "fc2", "--steps", "--target", "avx2"]) == 0
    assert "--- tensorize 4x3 over m1 n1 k1 ---" in capsys.readouterr().out


def test_steps_need_a_node(capsys: Capture) -> None:
    assert main(["explain", MLP, "--steps"]) == 2
    assert "--steps needs a NODE" in capsys.readouterr().err
