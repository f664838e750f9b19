"""The targets that stand for this machine and for ISA levels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from llvmlite import binding

from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.codegen import host
from graphc.codegen.aot import assembly
from graphc.codegen.module import emit_module
from graphc.targets.isa import ISAS
from graphc.targets.machines import MACHINES, SAPPHIRE_RAPIDS, UNKNOWN, ZEN3, ZEN5, Machine
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Buffer, Module
from support.native_functions import NativeModule

LEVELS = tuple(name for name, isa in ISAS.items() if not isa.triple)
REGISTERS = {"amx": "%zmm", "avx512": "%zmm", "avx2": "%ymm", "generic": "%xmm"}


def vector_add(lanes: int) -> Module:
    a, out = Buffer("a", F32, (lanes,)), Buffer("out", F32, (lanes,))
    b = t.LoopBuilder()
    x = t.load(a, (0,), lanes)
    b.store(out, (0,), t.call("fma", x, x, x))
    return Module((b.function("f", (a, out)),))


@pytest.mark.parametrize("isa", LEVELS)
def test_a_level_uses_its_registers_and_no_wider_ones(isa: str) -> None:
    target = host.target_for(isa)
    assert target.isa == isa
    text = assembly(emit_module(vector_add(target.lanes(F32)), target), target)
    used = {name for name in REGISTERS.values() if name in text}
    assert used == {REGISTERS[isa]}
    assert ("vfmadd" in text) == (isa != "generic")


@pytest.mark.parametrize("isa", LEVELS)
def test_native_is_the_widest_level_that_runs_here(isa: str) -> None:
    native = host.target_for("native")
    assert host.host_supports(native.isa)
    if LEVELS.index(isa) < LEVELS.index(native.isa):
        assert not host.host_supports(isa)
    if host.host_supports(isa):
        target = host.target_for(isa)
        lanes = target.lanes(F32)
        x, out = np.arange(lanes, dtype=np.float32), np.zeros(lanes, np.float32)
        NativeModule(vector_add(lanes), target).call("f", [x, out])
        np.testing.assert_array_equal(out, x * x + x)


def test_features_requested_are_features_of_this_cpu() -> None:
    wanted = {f[1:] for f in host.target_for("native").features.split(",") if f.startswith("+")}
    present = {name for name, on in binding.get_host_cpu_features().items() if on}
    assert wanted <= present


def test_features_of_another_architecture_are_not_named() -> None:
    """LLVM prints a warning for each that it does not know."""
    assert "neon" not in host.target_for("native").features


def test_unknown_targets_are_refused() -> None:
    with pytest.raises(
        UserError,
        match=r"'avx3' is not known; did you mean 'avx2'\? known are native, amx, avx512, avx2, aarch64, generic",
    ):
        host.target_for("avx3")
    with pytest.raises(
        UserError, match=r"aarch64 has no optional feature 'dotprd'; did you mean 'dotprod'\?"
    ):
        host.target_for("aarch64+dotprd")
    with pytest.raises(UserError, match="target 'sse' is not known"):
        host.host_supports("sse")


@pytest.mark.parametrize(
    ("cpu", "vendor", "bf16", "machine"),
    [
        ("znver5", "AuthenticAMD", True, ZEN5),
        ("znver4", "AuthenticAMD", True, UNKNOWN),
        ("znver3", "AuthenticAMD", False, ZEN3),
        ("sapphirerapids", "GenuineIntel", True, SAPPHIRE_RAPIDS),
        ("rocketlake", "GenuineIntel", True, SAPPHIRE_RAPIDS),  # as virtual machines may call it
        ("icelake-server", "GenuineIntel", False, UNKNOWN),
        ("haswell", "", False, UNKNOWN),
    ],
)
def test_the_core_family_decides_the_rates(
    cpu: str, vendor: str, bf16: bool, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding, "get_host_cpu_name", lambda: cpu)
    monkeypatch.setattr(host, "_host_features", lambda: {"avx512bf16": bf16})
    monkeypatch.setattr(host, "_cpu_info", {"vendor_id": vendor}.get)
    assert host._host_machine.__wrapped__() is machine
    assert set(LEVELS) <= set(machine.rates) <= set(ISAS) and MACHINES[machine.family] is machine


def test_the_cpu_has_a_name() -> None:
    assert host.cpu_name().strip()


def test_cache_sizes_come_from_the_system(tmp_path: Path) -> None:
    entries = (
        ("Data", "1", "48K"), ("Instruction", "1", "32K"), ("Unified", "2", "2M"), ("Unified", "3", "36608K"),
        ("Unified", "x", "1K"), ("Unified", "4", ""),
    )  # fmt: skip
    for number, values in enumerate(entries):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, value in zip(("type", "level", "size"), values, strict=True):
            (folder / name).write_text(f"{value}\n")
    (tmp_path / "index9").mkdir()
    (tmp_path / "index0" / "ways_of_associativity").write_text("12\n")
    found = host._caches(tmp_path)
    assert {level: cache.size for level, cache in found.items()} == {
        1: 48 << 10, 2: 2 << 20, 3: 36608 << 10,
    }  # fmt: skip
    assert [cache.ways for cache in found.values()] == [12, 0, 0]
    assert host._caches(tmp_path / "absent") == {}
    target = host.target_for("native")
    assert 0 < target.l1_bytes <= target.l2_bytes


@pytest.mark.parametrize("cpu", ["skylake-avx512", "sapphirerapids", "znver4"])
def test_512_bits_stay_whole_where_llvm_prefers_256(cpu: str) -> None:
    target = replace(host.target_for("avx512"), cpu=cpu)
    text = assembly(emit_module(vector_add(16), target), target)
    assert "%zmm" in text and "%ymm" not in text
