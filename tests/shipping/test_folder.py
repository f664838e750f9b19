"""Folders of native libraries: weights in a file, examples that build and run, files for build systems."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc.base.errors import UserError
from graphc.frontend.huggingface.safetensors import read_safetensors
from graphc.shipping.names import MAX_LETTERS, checked_prefix, identifiers, prefix_of
from support.c_programs import build, needs, run
from support.layers import decoder, layer, whole

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() != "x86_64",
    reason="libraries that run are ELF, and the programs are for this machine",
)
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")
LANGUAGES = {"c": ("gcc", "-std=c99"), "cpp": ("g++", "-std=c++17")}


def built_example(folder: Path, language: str, library: str) -> str:
    words = LANGUAGES[language]
    needs(words[0])
    link = [f"example.{language}", library, "-Wl,-rpath,$ORIGIN", "-o", "example"]
    subprocess.run([*words, *STRICT, *link], cwd=folder, check=True)
    done = subprocess.run(["./example"], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_folder_has_all_that_programs_need(tmp_path: Path) -> None:
    files = graphc.export(layer(), tmp_path / "out")
    names = {
        "CMakeLists.txt",
        "example.c",
        "example.cpp",
        *(f"layer.{s}" for s in ("a", "h", "pc", "so", "weights")),
    }
    assert (
        {file.name for file in files}
        == {path.name for path in (tmp_path / "out").iterdir()}
        == names
    )


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("library", ["a", "so"])
def test_examples_run(language: str, library: str, tmp_path: Path) -> None:
    graphc.export(layer(), f"{tmp_path}/")
    assert built_example(tmp_path, language, f"layer.{library}").endswith("\ny: 0 1 2 3\n")


@pytest.mark.parametrize("language", LANGUAGES)
def test_examples_of_dynamic_models_run(language: str, tmp_path: Path) -> None:
    graphc.export(
        decoder(), f"{tmp_path}/", inputs={"past": "f32[P=0..7,5]"}, alias={"present": "past"}
    )
    assert built_example(tmp_path, language, "decoder.a").endswith("y: 0 0 0 0\n")


def test_the_weights_are_in_a_file(tmp_path: Path) -> None:
    graphc.export(layer(), f"{tmp_path}/", ["avx2", "generic"])
    assert {path.name for path in tmp_path.glob("*.weights")} == {
        "layer.avx2.weights", "layer.generic.weights",
    }  # fmt: skip
    x, model = whole(4, 32), graphc.compile(layer(), target="avx2")
    for library in ("layer.a", "layer.so"):
        program = build(tmp_path, "layer", library)
        assert run(program, [x]) == (0, model(x).tobytes())
    other = tmp_path / "other"
    graphc.export(layer(scale=2), f"{other}/", ["avx2", "generic"])
    (tmp_path / "layer.avx2.weights").write_bytes((other / "layer.avx2.weights").read_bytes())
    assert run(program, [x])[0] == 5


def test_weights_files_can_be_read_by_others(tmp_path: Path) -> None:
    graphc.export(layer(), f"{tmp_path}/")
    file = tmp_path / "layer.weights"
    (size,) = struct.unpack_from("<Q", file.read_bytes())
    table = json.loads(file.read_bytes()[8 : 8 + size])
    about = table.pop("__metadata__")
    assert (8 + size) % 64 == 0 and about["model"] == "layer"
    ends = sorted(tuple(one["data_offsets"]) for one in table.values())
    assert [0, *(end for _, end in ends)] == [*(a for a, _ in ends), file.stat().st_size - 8 - size]
    assert set(read_safetensors(file)) == set(table)
    bias = next(one["data_offsets"] for one in table.values() if one["dtype"] == "F32")
    values = np.frombuffer(file.read_bytes()[8 + size :][slice(*bias)], np.float32)
    assert np.array_equal(values, np.arange(33) % 5)


def test_names_are_those_of_c(tmp_path: Path) -> None:
    model = layer(name="my/model: v2", x="int", y="out put/été")
    graphc.export(model, f"{tmp_path}/")
    text = (tmp_path / "my_model_v2.h").read_text()
    assert "const float *int_;" in text and "float *out_put_ete;" in text
    built_example(tmp_path, "cpp", "my_model_v2.a")


@pytest.mark.parametrize(
    ("names", "fields"),
    [
        (["a/b", "a_b", "a b"], ["a_b", "a_b_2", "a_b_3"]),
        (["int", "unix", "NULL", "int32_t", "INT64_MAX"], ["int_", "unix_", "NULL_", "int32_t_", "INT64_MAX_"]),
        (["", "日本", "1x", "_Bool", "__x"], ["x", "x_2", "x1x", "Bool", "x_3"]),
    ],
)  # fmt: skip
def test_names_differ_and_are_not_reserved(names: list[str], fields: list[str]) -> None:
    assert identifiers(names) == fields


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("été", "ete"), ("ﬁr²", "fir2"), ("日本", "model_[0-9a-f]{8}"), ("größe", "gro_e_[0-9a-f]{8}"),
        ("модель 2", "x2_[0-9a-f]{8}"), ("é" * 99 + "ж", "e{54}_[0-9a-f]{8}"), ("\udc80", "model_[0-9a-f]{8}"),
        ("a–b", "a_b"), ("", "x"),
    ],
)  # fmt: skip
def test_prefixes_of_names_in_other_scripts_differ(name: str, pattern: str) -> None:
    prefix = prefix_of(name)
    assert re.fullmatch(pattern, prefix) and checked_prefix(prefix) == prefix_of(name)
    assert len(prefix) <= MAX_LETTERS
    assert prefix != prefix_of(f"{name}木")


@pytest.mark.parametrize("suffix", [".so", ".a"])
def test_names_of_files_may_be_any_bytes(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff\xfe" + suffix.encode())
    graphc.export(layer(), path)
    program = build(tmp_path, "layer", f"{path.name}", header=f"{path.stem}.h")
    assert run(program, [whole(4, 32)])[0] == 0


def test_a_header_beside_a_library_does_not_hide_one_of_c(tmp_path: Path) -> None:
    files = graphc.export(layer(), tmp_path / "string.so")
    assert [file.name for file in files] == ["string.so", "string_model.h"]


@pytest.mark.parametrize(("name", "prefix"), [("string", "string_model"), ("int", "int_model")])
def test_a_header_does_not_hide_one_of_c(name: str, prefix: str, tmp_path: Path) -> None:
    """A model called `string` would have the header `string.h`, which other headers include."""
    graphc.export(layer(name=name), f"{tmp_path}/")
    assert (tmp_path / f"{prefix}.h").exists()
    words = ["gcc", "-I.", *STRICT, "example.c", f"{prefix}.a", "-o", "example"]
    needs("gcc")
    subprocess.run(words, cwd=tmp_path, check=True)


def test_build_systems_find_the_library(tmp_path: Path) -> None:
    needs("pkg-config", "gcc")
    graphc.export(layer(), f"{tmp_path}/")
    found = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "layer"],
        env={**os.environ, "PKG_CONFIG_PATH": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    words = ["gcc", "example.c", *found.stdout.split(), "-o", "example"]
    subprocess.run(words, cwd=tmp_path, check=True)


PROJECT = """
cmake_minimum_required(VERSION 3.13)
project(app C)
add_subdirectory(model)
foreach(kind layer layer_static)
    add_executable(use_${kind} model/example.c)
    target_link_libraries(use_${kind} ${kind})
endforeach()
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_projects_of_cmake_add_the_folder(compiler: str, tmp_path: Path) -> None:
    needs("cmake", "ninja", compiler)
    graphc.export(layer(), tmp_path / "model/")
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    words = ["cmake", "-S", ".", "-B", "build", "-G", "Ninja", f"-DCMAKE_C_COMPILER={compiler}"]
    for step in (words, ["cmake", "--build", "build"]):
        done = subprocess.run(step, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    for name in ("use_layer", "use_layer_static"):
        program = [tmp_path / "build" / name]
        done = subprocess.run(program, cwd=tmp_path / "model", capture_output=True, text=True)
        assert done.stdout.endswith("\ny: 0 1 2 3\n"), done.stderr


def test_a_folder_is_a_project_of_cmake(tmp_path: Path) -> None:
    needs("cmake", "ninja", "c++")
    graphc.export(layer(), f"{tmp_path}/")
    for step in (["cmake", "-S", ".", "-B", "b", "-G", "Ninja"], ["cmake", "--build", "b"]):
        subprocess.run(step, cwd=tmp_path, capture_output=True, check=True)
    for name in ("example_c", "example_cpp"):
        done = subprocess.run([f"b/{name}"], cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout.endswith("\ny: 0 1 2 3\n"), done.stderr


def test_a_mapped_file_is_enough(tmp_path: Path) -> None:
    """Programs in other languages need this: the address of a mapped file, and arrays of pointers."""
    graphc.export(layer(), f"{tmp_path}/")
    library = ctypes.CDLL(str(tmp_path / "layer.so"))
    library.layer_weights.restype = ctypes.c_void_p
    library.layer_arena_bytes.restype = ctypes.c_int64
    data = np.memmap(tmp_path / "layer.weights", np.uint8, "r")
    weights = library.layer_weights(ctypes.c_void_p(data.ctypes.data), ctypes.c_int64(data.size))
    assert weights and not library.layer_weights(
        ctypes.c_void_p(data.ctypes.data), ctypes.c_int64(9)
    )
    x, y = whole(4, 32), np.zeros((4, 33), np.float32)
    arena = np.zeros(library.layer_arena_bytes(None) + 64, np.uint8)
    at = arena.ctypes.data + -arena.ctypes.data % 64
    pointers = [(ctypes.c_void_p * 1)(array.ctypes.data) for array in (x, y)]
    room = ctypes.c_int64(arena.nbytes - 64)
    tail = None, ctypes.c_void_p(weights), ctypes.c_void_p(at), room, None
    assert library.layer_run(*pointers, *tail) == 0
    assert np.array_equal(y, graphc.compile(layer(), threads=1)(x))
    assert library.layer_run(*pointers, None, None, ctypes.c_void_p(at), room, None) == -5


HOSTILE = (
    "x*\\ int planted; /*",
    "*\n/",
    "a*/b",
    "/*",
    "a\\",
    "??/",
    '"',
    "%s",
    "\u2028*\x00/",
    "é*\\",
)


@pytest.mark.parametrize("language", LANGUAGES)
def test_names_in_a_model_are_no_code(language: str, tmp_path: Path) -> None:
    """The names of a model and its tensors are text in comments and strings, whatever they hold."""
    for number, name in enumerate(HOSTILE):
        folder = tmp_path / str(number)
        model = layer(name=f"n {name}", x=f"x {name}", y=f"y {name}")
        graphc.export(model, f"{folder}/", ["generic"])
        (library,) = folder.glob("*.a")
        built_example(folder, language, library.name)


@pytest.mark.parametrize("name", ["CMakeLists.txt", "layer.weights", "layer.so", "layer.h"])
def test_files_of_others_are_kept(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("project(graphc)\n")
    with pytest.raises(UserError, match=rf"{name}' must not replace a file that graphc did not"):
        graphc.export(layer(), f"{tmp_path}/")
    assert os.listdir(tmp_path) == [name]
    (tmp_path / name).write_bytes(b"")
    for _ in range(2):
        graphc.export(layer(), f"{tmp_path}/")


def test_a_header_of_others_beside_a_library_is_kept(tmp_path: Path) -> None:
    (tmp_path / "m.h").write_text("int x;\n")
    for name in ("m.so", "m.o"):
        with pytest.raises(UserError, match=r"m.h' must not replace a file that graphc did not"):
            graphc.export(layer(), tmp_path / name, "avx2@macos" if name == "m.o" else "avx2")
    assert os.listdir(tmp_path) == ["m.h"]


def test_weights_of_earlier_targets_are_removed(tmp_path: Path) -> None:
    (tmp_path / "layer.amx.weights").write_text("of another")
    (tmp_path / "other.avx2.weights").write_text("of another")
    for targets in ("avx2", ["avx2", "avx512"], "avx2"):
        files = graphc.export(layer(), f"{tmp_path}/", targets)
        mine = sorted(path.name for path in files if path.suffix == ".weights")
        there = sorted(path.name for path in tmp_path.glob("*.weights"))
        assert there == sorted([*mine, "layer.amx.weights", "other.avx2.weights"])
