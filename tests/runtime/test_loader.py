"""Loading code: nothing leaks, wrong CPUs are refused, broken objects do not end the process."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from graphc.base.errors import InternalError, UserError
from graphc.runtime.artifact import Artifact
from graphc.runtime.executor import CompiledModel
from graphc.runtime.loader import LoadedCode, best_isa, check_cpu, host_features
from support.native import add_artifact


def resident_kilobytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def memory_maps() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


def test_loading_and_closing_does_not_leak() -> None:
    artifact = add_artifact()
    x = np.ones((8, 13), np.float32)

    def use() -> None:
        with CompiledModel(artifact) as model:
            assert model(x, x)[0, 0] == 4

    for _ in range(30):
        use()
    gc.collect()
    resident, maps = resident_kilobytes(), memory_maps()
    for _ in range(200):
        use()
    gc.collect()
    assert resident_kilobytes() - resident < 600  # 3 KB a model, above what malloc itself wavers
    assert memory_maps() - maps < 10


def test_a_dropped_model_is_unloaded_like_a_closed_one() -> None:
    artifact = add_artifact()
    for _ in range(20):
        CompiledModel(artifact)
    maps = memory_maps()
    for _ in range(50):
        CompiledModel(artifact)
    assert memory_maps() - maps < 10


def test_missing_symbol() -> None:
    code = LoadedCode(add_artifact().object_code)
    with pytest.raises(InternalError, match="^object code does not export 'nothing'$"):
        code.address("nothing")


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (b"", "has no ELF header"),
        (b"junk" * 100, "has no ELF header"),
        (add_artifact().object_code[:-1], "is truncated or not relocatable"),
    ],
)
def test_code_that_is_no_object(code: bytes, problem: str) -> None:
    with pytest.raises(InternalError) as caught:
        LoadedCode(code)
    assert str(caught.value) == f"object code of {len(code)} bytes cannot be loaded: it {problem}"


def test_another_isa_is_refused_before_loading(tmp_path: Path) -> None:
    metadata = replace(
        add_artifact().metadata, isa="avx512", cpu_features=("sse2", "avx9000f", "avx9000bw")
    )
    replace(add_artifact(), metadata=metadata, object_code=b"never looked at").save(
        tmp_path / "m.gcm"
    )
    artifact = Artifact.load(tmp_path / "m.gcm")
    isa = best_isa(host_features())
    with pytest.raises(UserError) as caught:
        CompiledModel(artifact)
    assert str(caught.value) == (
        f"m.gcm: needs avx512 (avx9000f, avx9000bw), this CPU has {isa}; "
        f"recompile with --target {isa}"
    )


def test_another_architecture_is_refused() -> None:
    metadata = replace(add_artifact().metadata, triple="m68k-unknown-linux-gnu")
    here = llvm.get_process_triple().partition("-")[0]
    with pytest.raises(UserError) as caught:
        check_cpu(metadata, "m.gcm")
    assert str(caught.value) == (f"m.gcm: is code for m68k, this CPU is {here}; recompile it here")


def test_best_isa() -> None:
    assert best_isa(()) == "generic"
    assert best_isa(("avx2",)) == "generic"
    assert best_isa(("avx2", "fma")) == "avx2"
    avx512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl")
    assert best_isa((*avx512, "avx2", "fma", "sse2")) == "avx512"
