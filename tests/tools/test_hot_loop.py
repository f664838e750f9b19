"""The hot loop of assembly: its spills, its bounds by the ports of a core, and the verdict on a kernel."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from graphc.codegen.host import target_for
from graphc.targets.isa import Target
from graphc.targets.machines import SAPPHIRE_RAPIDS, UNKNOWN, ZEN3
from graphc.targets.ports import ASSEMBLY, MODEL, PORTS
from graphc.tools.hot_loop import mca
from graphc.tools.hot_loop.bound import CHAIN, FRONT_END, loop_bound
from graphc.tools.hot_loop.find import hot_loop

WIDE = Target("avx512", "x86-64-v4", "+avx512f", machine=SAPPHIRE_RAPIDS)
read = ASSEMBLY["avx512"]

ASSEMBLY_TEXT = """\
.LBB0_1:
\tvmovups\t(%rax), %zmm0
\tvfmadd213ps\t(%rax), %zmm0, %zmm1
\tvfmadd213ps\t(%rbx), %zmm0, %zmm1
\tvfmadd213ps\t(%rcx), %zmm0, %zmm1
\tvmovups\t%zmm1, %zmm4
\tjne\t.LBB0_1
.LBB0_2:
\tvfmadd231ps\t(%rax), %zmm1, %zmm2
\tvmovups\t%zmm3, 64(%rsp)
\tvmovups\t%zmm3, 64(%rdi)
\tvfmadd231ps\t128(%rsp), %zmm1, %zmm3
\tjne\t.LBB0_2
"""


def loop(*lines: str) -> str:
    return "\n".join([".LBB0_9:", *(f"\t{line}" for line in lines), "\tjne\t.LBB0_9"])


def test_the_loop_that_sums() -> None:
    text = ASSEMBLY_TEXT.replace("vmovups\t(%rax), %zmm0", "vmovups\t(%rax), %zmm1")
    found = hot_loop(text, WIDE)
    assert found.lines[0] == ".LBB0_2:" and len(found.lines) == 6
    assert (found.spills, found.reloads, found.loads, found.stores) == (1, 1, 2, 2)
    assert found.multiply_adds == found.accumulated == 32
    assert not hot_loop("\tret", WIDE).lines and loop_bound("\tret", WIDE) is None
    assert not hot_loop(text, replace(WIDE, isa="aarch64")).lines


@pytest.mark.parametrize(
    ("lines", "binding", "cycles"),
    [
        ([f"vfmadd231ps\t%zmm30, %zmm31, %zmm{i}" for i in range(10)], "ports 0/5", 5),
        ([f"vfmadd231ps\t%ymm14, %ymm15, %ymm{i}" for i in range(10)], "ports 0/1", 5),
        (["vfmadd231ps\t%zmm30, %zmm31, %zmm0"] * 3, CHAIN, 12),
        ([f"vpermps\t%zmm30, %zmm31, %zmm{i}" for i in range(3)], "port 5", 3),
        ([f"vmovups\t{64 * i}(%rax), %zmm{i}" for i in range(7)], "ports 2/3", 3.5),
        (["tdpbusd\t%tmm1, %tmm2, %tmm3", "tdpbusd\t%tmm1, %tmm2, %tmm4"], CHAIN, 52),
        ([f"tdpbusd\t%tmm6, %tmm7, %tmm{i}" for i in range(4)], "port 5", 64),
        (["vxorps\t%zmm1, %zmm1, %zmm1"] * 11, FRONT_END, 2),
        (["vaddps\t%zmm0, %zmm1, %zmm1{%k1}", "vaddps\t%zmm0, %zmm1, %zmm1"], CHAIN, 8),
        (["vmulps\t8(%rsp), %zmm1, %zmm2", "vmovups\t%zmm2, 8(%rsp)"], CHAIN, 8),
    ],
)  # fmt: skip
def test_what_bounds_a_loop(lines: list[str], binding: str, cycles: float) -> None:
    found = loop_bound(loop(*lines), WIDE)
    assert found is not None and found.binding == binding and found.least == pytest.approx(cycles)
    assert max(found.ports.values(), default=0) <= cycles + 1e-6 and found.code_bytes > 0


@pytest.mark.parametrize(
    ("name", "binding", "cycles"),
    [
        ("vfmadd231ps", "ports F0/F1", 6),
        ("vpmaddwd", "ports F0/F3", 6),
        ("vaddps", "ports F2/F3", 6),
        ("vpaddd", "ports F0/F1/F2/F3", 3),
        ("vpermps", "ports F1/F2", 12),
    ],
)
def test_pipes_of_zen3(name: str, binding: str, cycles: float) -> None:
    """Two multiply-adds per cycle were measured, two sums, four sums of integers, one permutation."""
    narrow = Target("avx2", "znver3", "+avx2", machine=ZEN3)
    lines = [f"{name}\t%ymm14, %ymm15, %ymm{i}" for i in range(12)]
    found = loop_bound(loop(*lines), narrow)
    assert found is not None and found.binding == binding
    assert found.least == pytest.approx(cycles) and found.family == "zen3"


def test_steps_of_every_shape() -> None:
    step = read("\tvpdpbusd\t64(%rax,%rcx,4), %zmm30, %zmm5{%k2}")
    assert step is not None and step.loads and not step.stores and step.bits == 512
    assert set(step.reads) == {"v30", "v5", "k2"} and step.addresses == ("rax", "rcx")
    assert step.writes == ("v5",) and step.multiply_adds == 64
    assert read("\taddl\t$4, %r9d").reads == ("r9",)  # type: ignore[union-attr]
    assert read("\tvaddps\t(%rax){1to16}, %zmm1, %zmm2").loads  # type: ignore[union-attr]
    assert read("\tmovzbl\t%al, %ecx").writes == ("rcx",)  # type: ignore[union-attr]
    assert read("\tvmovups\t%zmm2, (%rax) {%k1}").stores  # type: ignore[union-attr]
    assert read("# comment") is None and read(".LBB1:") is None


def test_cores_without_a_table_are_taken_for_another() -> None:
    found = loop_bound(loop("vaddps\t%zmm0, %zmm1, %zmm2"), replace(WIDE, machine=UNKNOWN))
    assert found is not None and found.family == MODEL and MODEL in PORTS


def test_outside_names_and_comments_are_encoded() -> None:
    lines = loop(
        "vmovups\t.LCPI0_3+64(%rip), %zmm1  # note", "je\t.LBB0_77", "leaq\tother(%rip), %rax"
    )
    found = loop_bound(lines, WIDE)
    assert found is not None and 10 + 6 + 7 + 2 <= found.code_bytes <= 10 + 6 + 7 + 6


def test_the_other_model_answers_or_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loop_bound(loop("vaddps\t%ymm0, %ymm1, %ymm2"), target_for("avx2"))
    assert found is not None
    if shutil.which(mca.PROGRAM):
        said = mca.simulate(found.loop.lines, Target("avx2", "haswell"))
        assert said.cycles >= said.port_cycles > 0
        assert mca.simulate((".L1:", "\tnonsense"), Target("avx2", "haswell")).refused
    monkeypatch.setattr(mca, "PROGRAM", "no-such-program")
    assert "not installed" in mca.simulate(found.loop.lines, target_for("avx2")).refused
