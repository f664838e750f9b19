"""Libraries for AArch64, compiled on any machine: they run under QEMU, where no compiler for them is at hand."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from support.bare_programs import program
from support.c_programs import needs
from support.layers import layer, whole

SIZES = [(1, 1), (4, 33), (37, 128)]


@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_a_library_runs(rows: int, width: int, tmp_path: Path) -> None:
    needs("qemu-aarch64")
    model = layer(rows, width=width)
    graphc.export(model, tmp_path / "layer.so", "aarch64")
    arena = compile_stages(model, "aarch64").artifact.metadata.arena_bytes
    x, y = whole(rows, 32), np.zeros((rows, width), np.float32)
    code = program((tmp_path / "layer.so").read_bytes(), "layer", [x], [y], arena)
    (tmp_path / "program").write_bytes(code)
    (tmp_path / "program").chmod(0o755)
    words = ["qemu-aarch64", str(tmp_path / "program")]
    done = subprocess.run(words, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(
        np.frombuffer(done.stdout, np.float32).reshape(rows, width),
        graphc.compile(model, threads=1)(x),
    )


def test_wrong_arguments_are_statuses(tmp_path: Path) -> None:
    needs("qemu-aarch64")
    graphc.export(layer(), tmp_path / "layer.so", "aarch64")
    code = program((tmp_path / "layer.so").read_bytes(), "layer", [], [], 0)
    (tmp_path / "program").write_bytes(code)
    (tmp_path / "program").chmod(0o755)
    done = subprocess.run(["qemu-aarch64", str(tmp_path / "program")], check=False, timeout=60)
    assert done.returncode == 256 - 2


@pytest.mark.parametrize("threads", [1, 3])
def test_loops_run_in_a_thread_pool(threads: int, tmp_path: Path) -> None:
    needs("qemu-aarch64")
    model = layer(256, width=512)
    graphc.export(model, tmp_path / "layer.so", "aarch64", threads=2)
    compiled = compile_stages(model, "aarch64", CompileOptions(threads=2)).artifact.metadata
    assert any("parallel" in call["note"] for call in compiled.stats["calls"])
    x, y = whole(256, 32), np.zeros((256, 512), np.float32)
    library = (tmp_path / "layer.so").read_bytes()
    code = program(library, "layer", [x], [y], compiled.arena_bytes, threads)
    (tmp_path / "program").write_bytes(code)
    (tmp_path / "program").chmod(0o755)
    words = ["qemu-aarch64", "-strace", str(tmp_path / "program")]
    done = subprocess.run(words, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(b" clone(") == threads - 1
    assert np.array_equal(
        np.frombuffer(done.stdout, np.float32).reshape(256, 512),
        graphc.compile(model, threads=1)(x),
    )


def test_the_header_has_a_thread_pool(tmp_path: Path) -> None:
    for ending in ("a", "o", "so"):
        graphc.export(layer(), tmp_path / f"layer.{ending}", "aarch64")
    assert "layer_pool_create" in (tmp_path / "layer.h").read_text()
