"""`graphc asm`: nodes to kernels to code, and back."""

from __future__ import annotations

import json
import re

import pytest

from graphc.bench.kernels import inner_loop
from graphc.cli import asm, main
from graphc.tools.kernel_code import STAGES, split_assembly
from support.process import ROOT

MLP = str(ROOT / "examples" / "mlp.onnx")


def facts(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict]:  # type: ignore[type-arg]
    assert main(["asm", MLP, "--json", "--threads", "2", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, list)
    return found


def test_the_map_names_every_kernel_with_the_ops_it_came_from(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = facts(capsys)
    assert [row["node"] for row in rows] == ["relu1.fused", "relu2.fused", "relu3.fused"]
    assert rows[1]["source"] == ["fc2", "fc2.add", "relu2"]
    assert main(["asm", MLP]) == 0
    assert capsys.readouterr().out.startswith("fc1, fc1.add, relu1 -> relu1.fused -> f32_gemm_")


def test_both_ways_give_the_same_code(capsys: pytest.CaptureFixture[str]) -> None:
    (by_node,) = facts(capsys, "--node", "fc2.add", "--stage", "all")
    assert by_node["source"] == ["fc2", "fc2.add", "relu2"]
    (by_kernel,) = facts(capsys, "--kernel", by_node["kernel"], "--stage", "all")
    assert by_kernel == by_node
    code = by_node["code"]
    assert tuple(code) == STAGES == asm.STAGES
    for text in code.values():
        assert by_node["kernel"] in text
    # The loop over blocks of rows runs on the pool: its body is a task, with a trampoline in LLVM IR.
    assert "__task0" not in code["tensor-ir"] and "__task0" in code["loops"]
    assert '__task0.task"(ptr %ctx, i64 %i)' in code["llvm"] and "__task0.task:" in code["asm"]
    assert "ret" in code["asm"] and ".cfi" not in code["asm"]


@pytest.mark.parametrize(
    ("isa", "widest"), [("avx512", "zmm"), ("avx2", "ymm"), ("generic", "xmm")]
)
def test_code_of_a_target_uses_its_widest_registers(
    isa: str, widest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On any machine: nothing is run. The accumulators of the inner loop stay in registers."""
    (row,) = facts(capsys, "--node", "fc2", "--stage", "asm", "--target", isa)
    text = row["code"]["asm"]
    assert row["kernel"].endswith(f"__{isa}")
    used = set(re.findall(r"%([xyz]mm)\d", text))
    assert max(used) == widest
    multiply = "mulps" if isa == "generic" else "vfmadd"
    loop, spills = inner_loop(text.splitlines())
    assert sum(multiply in line and f"%{widest}" in line for line in loop) >= 8
    assert spills == 0


def test_text_has_a_head_and_a_part_per_stage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["asm", MLP, "--node", "fc3", "--stage", "loops,asm"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1:3] == ["nodes  relu3.fused", "from   fc3, fc3.add, relu3"]
    assert [line for line in out if line.startswith("---")] == ["--- loops ---", "--- asm ---"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--node", "nobody"], "there is no node or kernel 'nobody'"),
        (["--kernel", "fc1"], "there is no kernel 'fc1'"),
        (["--stage", "x"], "--stage must be of tensor-ir, loops, llvm, asm or all, got 'x'"),
    ],
)
def test_refusals(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["asm", MLP, *words]) == 2
    assert message in capsys.readouterr().err


def test_assembly_is_cut_at_function_labels() -> None:
    text = (
        "\t.section .rodata\nk:\n\t.long 1\n\t.text\nf:\n\t.cfi_startproc\n\tret\n"
        '.Lfunc_end0:\n"g h":\n.LBB1_1:\n\tjmp .LBB1_1\n'
    )
    found = split_assembly(text)
    assert found["f"] == "f:\n        ret"
    assert found["g h"] == '"g h":\n.LBB1_1:\n        jmp .LBB1_1'
