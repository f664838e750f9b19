"""Objects for macOS and Windows: their symbols, and for x86-64 what their code computes, loaded by LLVM's linker."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc import UnsupportedError, UserError
from graphc.base.aligned_memory import aligned_empty
from graphc.cli import main
from graphc.codegen.host import host_supports
from graphc.driver.compiler import compile_stages
from graphc.shipping.interface import FUNCTIONS
from graphc.targets.systems import SYSTEMS
from support.foreign_objects import ForeignObject, pointers, visible_symbols
from support.layers import layer, whole
from support.process import run_python

needs_avx2 = pytest.mark.skipif(
    platform.machine() != "x86_64" or not host_supports("avx2"), reason="runs code for AVX2"
)
GIVEN_BY_C = {"macos": set(), "windows": {"_fltused", "__chkstk"}}
"""Symbols of the system that objects use: a mark of the C runtime, and its check of large stacks."""


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("isas", [["avx2"], ["avx512", "avx2"], ["aarch64"]])
def test_only_the_interface_is_visible(system: str, isas: list[str], tmp_path: Path) -> None:
    file = tmp_path / f"layer{SYSTEMS[system].suffix}"
    written = graphc.export(layer("N"), file, [f"{isa}@{system}" for isa in isas])
    assert {path.suffix for path in written} == {file.suffix, ".h", ".weights"}
    defined, needed = visible_symbols(file.read_bytes(), system)
    assert defined == {f"layer_{name}" for name in FUNCTIONS}
    assert needed <= GIVEN_BY_C[system]


def _status(
    loaded: ForeignObject, prefix: str, weights: Path, arrays: list[np.ndarray], dims: np.ndarray
) -> int:
    """Return the status of a run; the last of the arrays is the output."""
    held = np.frombuffer(weights.read_bytes(), np.uint8)
    given = aligned_empty(held.shape, held.dtype)
    given[:] = held
    found = loaded.call(f"{prefix}_weights", given.ctypes.data, given.nbytes)
    size = loaded.call(f"{prefix}_arena_bytes", dims.ctypes.data)
    arena = aligned_empty((size + 1,), np.dtype("u1"))
    inputs, outputs = pointers(arrays[:-1]), pointers(arrays[-1:])
    words = (inputs.ctypes.data, outputs.ctypes.data, dims.ctypes.data, found, arena.ctypes.data)
    return loaded.call(f"{prefix}_run", *words, arena.nbytes) & 0xFFFFFFFF


@needs_avx2
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("isas", [["avx2"], ["avx512", "avx2"], ["generic"]])
def test_the_code_runs(system: str, isas: list[str], tmp_path: Path) -> None:
    file = tmp_path / f"layer{SYSTEMS[system].suffix}"
    graphc.export(layer("N"), file, [f"{isa}@{system}" for isa in isas])
    loaded = ForeignObject(file.read_bytes(), system)
    best = next(isa for isa in isas if isa == "generic" or host_supports(isa))
    weights = file.with_suffix(f".{best}.weights" if len(isas) > 1 else ".weights")
    x, y, dims = whole(37, 32), np.zeros((37, 33), np.float32), np.array([37])
    assert _status(loaded, "layer", weights, [x, y], dims) == 0
    assert np.array_equal(y, graphc.compile(layer("N"), best)(x))
    dims[:] = -1
    assert loaded.call("layer_arena_bytes", dims.ctypes.data) < 0


SCATTERED = """
import mmap, sys
import numpy as np, torch
from graphc.codegen.host import host_supports
from support.foreign_objects import ForeignObject

def reserve(size):
    return np.frombuffer(mmap.mmap(-1, size, mmap.MAP_PRIVATE, mmap.PROT_READ), np.uint8)

assert host_supports("avx2")
lowest = reserve(1 << 36)
holes = []
for size in (1 << n for n in range(30, 11, -1)):
    while (hole := reserve(size)).ctypes.data > lowest.ctypes.data:
        holes.append(hole)
del hole, holes[-1]  # one page above the 64 GB, and all else below them
loaded = ForeignObject(open(sys.argv[1], "rb").read(), sys.argv[2])
print(loaded.call("layer_arena_bytes", np.array([37]).ctypes.data))
try:
    torch.ones(2) @ torch.ones(3)
except RuntimeError:
    print("an exception")
"""


@needs_avx2
@pytest.mark.parametrize("system", SYSTEMS)
def test_other_libraries_may_fill_the_process_and_raise(system: str, tmp_path: Path) -> None:
    """The loader of these tests: sections within reach of each other, no unwinding by another system's tables."""
    file = tmp_path / f"layer{SYSTEMS[system].suffix}"
    graphc.export(layer("N"), file, [f"avx512@{system}", f"avx2@{system}"])
    tests = str(Path(__file__).parents[1])
    done = run_python(
        "-c", SCATTERED, str(file), system, env={"PYTHONPATH": os.pathsep.join([tests, *sys.path])}
    )
    assert (done.returncode, done.stdout) == (0, "0\nan exception\n"), done.stderr


@needs_avx2
@pytest.mark.parametrize("system", SYSTEMS)
def test_kernels_with_large_stacks_run(system: str, tmp_path: Path) -> None:
    file = tmp_path / f"mha{SYSTEMS[system].suffix}"
    graphc.export("examples/mha.onnx", file, f"avx2@{system}")
    model = graphc.compile("examples/mha.onnx", "avx2", threads=1)
    arrays = [whole(*spec.shape) for spec in model.inputs]
    expected = model(*arrays)
    y = np.zeros_like(expected)
    loaded = ForeignObject(file.read_bytes(), system)
    weights, no_dims = file.with_suffix(".weights"), np.array([0])
    assert _status(loaded, "mha", weights, [*arrays, y], no_dims) == 0
    assert np.array_equal(y, expected)


@needs_avx2
@pytest.mark.parametrize("system", SYSTEMS)
def test_two_models_of_a_program_do_not_collide(system: str, tmp_path: Path) -> None:
    names = {}
    for name in ("first", "second"):
        file = tmp_path / f"{name}{SYSTEMS[system].suffix}"
        graphc.export(layer(name=name), file, f"avx2@{system}")
        names[name], _ = visible_symbols(file.read_bytes(), system)
    assert not names["first"] & names["second"]


@pytest.mark.parametrize(
    ("target", "name", "words"),
    [
        ("avx2@macos", "m.so", "code for macos must be written as .o, got"),
        ("avx2@macos", "m.obj", "code for macos must be written as .o, got"),
        ("avx2@windows", "m.o", "code for windows must be written as .obj, got"),
        ("avx2@windows", "m/", "code for windows must be written as .obj, got"),
        ("avx2", "m.obj", "code for Linux must be written as .so or .a or .o or a folder, got"),
        ("avx2@mac", "m.o", "target 'avx2@mac': no such system; did you mean 'macos'? known are"),
        ("avx2@", "m.o", "target 'avx2@': no such system; known are macos, windows"),
        ("amx@macos", "m.o", "compile for avx512@macos"),
    ],
)
def test_what_does_not_fit_is_refused(target: str, name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=words.replace("?", r"\?")):
        graphc.export(layer(), f"{tmp_path}/{name}", target)
    assert not list(tmp_path.glob("m*"))


def test_targets_of_two_systems_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="targets of a library must be of one"):
        graphc.export(layer(), tmp_path / "m.o", ["avx2", "avx512@macos"])


def test_code_without_a_way_to_ask_the_cpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="compile for --target aarch64"):
        graphc.export(layer(), tmp_path / "m.o", "aarch64+dotprod@macos")


def test_python_does_not_load_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="is code for windows, which a program's linker loads"):
        graphc.compile(layer(), "avx2@windows")
    assert main(["compile", "examples/mlp.onnx", "--target", "avx2@macos"]) == 2
    assert (
        "code for macos is a native library; name one with -o, such as m.o"
        in capsys.readouterr().err
    )


def test_equal_models_give_equal_objects(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        graphc.export(layer(), tmp_path / name / "m.o", "avx2@macos", cache=False)
        found.append((tmp_path / name / "m.o").read_bytes())
    assert found[0] == found[1]


def test_stages_show_the_code_of_the_system() -> None:
    from graphc.codegen.aot import assembly

    shown = compile_stages(layer(), "avx2@macos")
    assert "_graphc_entry:" in assembly(shown.llvm_ir, shown.target)
