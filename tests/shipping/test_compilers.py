"""Programs that call native libraries, built by each compiler: C, C++ and Rust, sanitizers, valgrind, and AArch64."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import graphc
from support.c_programs import build, needs, run
from support.layers import decoder, layer, whole

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() != "x86_64",
    reason="libraries that run are ELF, and the programs are for this machine",
)

STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wconversion", "-Wshadow")
STANDARDS = {
    "gcc": ("c99", "c11", "c17"),
    "clang": ("c99", "c11", "c17"),
    "g++": ("c++98", "c++11", "c++17", "c++20"),
    "clang++": ("c++98", "c++11", "c++17", "c++20"),
}

BUILDS = {
    "shared": (".so", ()),
    "static": (".a", ("-static",)),
    "archive": (".a", ()),
    "object": (".o", ()),
    "position dependent": (".o", ("-no-pie",)),
    "addresses": (".a", ("-fsanitize=address,undefined",)),
    "threads": (".so", ("-fsanitize=thread",)),
}
COMPILERS = {
    "gcc": ("-std=c99", "-D_ISOC11_SOURCE"),
    "g++": ("-std=c++17", "-Wno-pedantic"),
    "clang": ("-std=c11",),
    "clang++": ("-std=c++17", "-Wno-pedantic"),
}
EMULATED = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")


@dataclass
class Made:
    """A folder with libraries of one model, and what they should compute."""

    folder: Path
    x: np.ndarray
    expected: bytes


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A layer whose loops run in parallel, for the CPUs that valgrind and QEMU know."""
    folder = tmp_path_factory.mktemp("layer")
    source = layer(256, width=512)
    model = graphc.compile(source, target="avx2", threads=2)
    assert any("parallel" in call["note"] for call in model.stats["calls"])
    for suffix in (".so", ".a", ".o"):
        files = graphc.export(model, folder / f"layer{suffix}")
        assert [file.name for file in files] == [f"layer{suffix}", "layer.h"]
    graphc.export(source, folder / "aarch64/", "aarch64", threads=2)
    x = whole(256, 32)
    return Made(folder, x, model(x).tobytes())


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a decoder, whose header has dynamic dimensions, aliases, a pool and weights."""
    folder = tmp_path_factory.mktemp("decoder")
    inputs = {"past": "f32[P=0..7,5]"}
    graphc.export(decoder(), f"{folder}/", inputs=inputs, alias={"present": "past"})
    return folder


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("kind", BUILDS)
def test_programs_run_the_model(kind: str, compiler: str, made: Made) -> None:
    suffix, flags = BUILDS[kind]
    words = (compiler, *COMPILERS[compiler], *flags)
    program = build(made.folder, "layer", f"layer{suffix}", words)
    for threads in (1, 3):
        assert run(program, [made.x], threads=threads) == (0, made.expected)


def test_valgrind_finds_nothing(made: Made) -> None:
    needs("valgrind")
    program = build(made.folder, "layer", "layer.so")
    under = ("valgrind", "-q", "--error-exitcode=99")
    assert run(program, [made.x], threads=3, under=under) == (0, made.expected)


@pytest.mark.parametrize("kind", ["shared", "static", "archive"])
def test_programs_for_aarch64_run_in_an_emulator(kind: str, made: Made) -> None:
    needs("qemu-aarch64")
    suffix, flags = BUILDS[kind]
    words = ("aarch64-linux-gnu-gcc", *flags)
    program = build(made.folder / "aarch64", "layer", f"layer{suffix}", words)
    for threads in (1, 3):
        assert run(program, [made.x], threads=threads, under=EMULATED) == (0, made.expected)


@pytest.mark.parametrize("compiler", STANDARDS)
def test_headers_are_strict(compiler: str, grown: Path) -> None:
    needs(compiler)
    language = "c++" if "++" in compiler else "c"
    for standard in STANDARDS[compiler]:
        words = [compiler, f"-std={standard}", *STRICT, "-fsyntax-only", "-x", language]
        done = subprocess.run([*words, "decoder.h"], cwd=grown, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), standard


@pytest.mark.parametrize("compiler", STANDARDS)
def test_examples_run_and_free_their_memory(compiler: str, grown: Path) -> None:
    needs(compiler)
    source = "example.cpp" if "++" in compiler else "example.c"
    standard = "-std=c++17" if "++" in compiler else "-std=c99"
    words = [compiler, standard, *STRICT, "-fsanitize=address,undefined", source, "decoder.a"]
    subprocess.run([*words, "-o", "example"], cwd=grown, check=True)
    done = subprocess.run(["./example"], cwd=grown, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("y: 0 0 0 0\n")


RUST = """
use std::ffi::c_void;
use std::ptr::null;

#[link(name = "layer")]
extern "C" {
    fn layer_arena_bytes(dims: *const c_void) -> i64;
    fn layer_run(inputs: *const *const c_void, outputs: *const *mut c_void, dims: *const c_void,
                 weights: *const c_void, arena: *mut c_void, arena_bytes: i64, runtime: *mut c_void) -> i32;
    fn layer_pool_create(threads: i64) -> *mut c_void;
    fn layer_pool_destroy(pool: *mut c_void);
}

fn main() {
    let x: Vec<f32> = (0..256 * 32).map(|i| (i % 11 - 5) as f32).collect();
    let bytes = unsafe { layer_arena_bytes(null()) } as usize;
    let run = |pool: *mut c_void| {
        let mut y = vec![0f32; 256 * 512];
        let mut arena = vec![0u8; bytes + 64];
        let at = arena.as_mut_ptr().wrapping_add(arena.as_ptr().align_offset(64));
        let inputs = [x.as_ptr() as *const c_void];
        let outputs = [y.as_mut_ptr() as *mut c_void];
        let arena = at as *mut c_void;
        let status = unsafe {
            layer_run(inputs.as_ptr(), outputs.as_ptr(), null(), null(), arena, bytes as i64, pool)
        };
        assert_eq!(status, 0);
        y
    };
    let alone = run(std::ptr::null_mut());
    let pool = unsafe { layer_pool_create(3) };
    assert_eq!(run(pool), alone);
    unsafe { layer_pool_destroy(pool) };
    let bytes: Vec<u8> = alone.iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write("outputs.bin", bytes).unwrap();
}
"""


@pytest.mark.parametrize("kind", ["a", "so"])
def test_rust_programs_run_the_model(kind: str, made: Made, tmp_path: Path) -> None:
    needs("rustc")
    if subprocess.run(["rustc", "--version"], capture_output=True).returncode != 0:
        pytest.skip("rustc has no toolchain")
    (tmp_path / f"liblayer.{kind}").symlink_to(made.folder / f"layer.{kind}")
    (tmp_path / "main.rs").write_text(RUST)
    words = ["rustc", "-L", ".", "main.rs", "-o", "program"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    found = {**os.environ, "LD_LIBRARY_PATH": str(made.folder)}
    subprocess.run([tmp_path / "program"], cwd=tmp_path, env=found, check=True)
    assert (tmp_path / "outputs.bin").read_bytes() == made.expected
