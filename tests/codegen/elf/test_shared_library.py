"""Shared libraries and archives as their readers see them: this process's loader, readelf, and the linker of C."""

from __future__ import annotations

import ctypes
import platform
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from graphc.base.errors import InternalError
from graphc.codegen.aot import compile_to_part
from graphc.codegen.elf.archive import archive
from graphc.codegen.elf.combine import Program, combine
from graphc.codegen.elf.object_file import read_object
from graphc.codegen.elf.relocatable import linkable_object, merge_objects
from graphc.codegen.elf.shared_library import shared_library
from graphc.codegen.host import target_for
from graphc.targets.isa import Target
from support.c_programs import needs

on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="loads code for this machine")
TABLE = """
@table = private unnamed_addr constant [4 x double] [double 1.0, double 2.0, double 3.0, double 4.0], align 32
define hidden double @inner(i64 %i) nounwind uwtable {
  %at = getelementptr [4 x double], ptr @table, i64 0, i64 %i
  %x = load double, ptr %at
  ret double %x
}
"""
CALLER = """
declare hidden double @inner(i64)
@functions = internal constant [2 x ptr] [ptr @inner, ptr @twice]
define double @twice(i64 %i) nounwind uwtable {
  %x = call double @inner(i64 %i)
  %y = fadd double %x, %x
  ret double %y
}
define double @chosen(i64 %i, i64 %which) nounwind uwtable {
  %at = getelementptr [2 x ptr], ptr @functions, i64 0, i64 %which
  %f = load ptr, ptr %at
  %x = call double %f(i64 %i)
  ret double %x
}
"""
RESOLVED = """
define internal double @fast() nounwind uwtable { ret double 3.0 }
define internal ptr @resolve() nounwind uwtable { ret ptr @fast }
@best = internal ifunc double (), ptr @resolve
define double @run() nounwind uwtable {
  %x = call double @best()
  ret double %x
}
"""
EXPORTS = [b"twice", b"chosen"]


def program(*texts: str, target: Target | None = None) -> Program:
    target = target or target_for("generic")
    return combine([read_object(compile_to_part(text, target)) for text in texts])


def library(made: Program, exports: list[bytes], folder: Path) -> Path:
    file = folder / "libx.so"
    file.write_bytes(b"".join(shared_library(made, exports, file.name)))
    return file


def readelf(file: Path, *options: str) -> str:
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    done = subprocess.run(["readelf", "-W", *options, file], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    return done.stdout


@on_x86
def test_a_library_runs_and_exports_nothing_else(tmp_path: Path) -> None:
    file = library(program(TABLE, CALLER), EXPORTS, tmp_path)
    loaded = ctypes.CDLL(str(file))
    loaded.chosen.restype = loaded.twice.restype = ctypes.c_double
    assert [loaded.chosen(ctypes.c_int64(3), ctypes.c_int64(i)) for i in (0, 1)] == [4.0, 8.0]
    assert loaded.twice(ctypes.c_int64(0)) == 2.0
    assert not hasattr(loaded, "inner")


def test_a_library_is_protected_and_complete(tmp_path: Path) -> None:
    shown = readelf(library(program(TABLE, CALLER), EXPORTS, tmp_path), "-ldS", "--dyn-syms")
    assert "GNU_RELRO" in shown and "Flags: NOW" in shown and "GNU_EH_FRAME" in shown
    assert "RWE" not in shown and "UND chosen" not in shown and "TEXTREL" not in shown
    assert " W  " not in shown  # no section is written but under RELRO
    stack = next(line for line in shown.splitlines() if "GNU_STACK" in line)
    assert " RW " in stack


def test_functions_can_be_unwound(tmp_path: Path) -> None:
    shown = readelf(library(program(TABLE, CALLER), EXPORTS, tmp_path), "--debug-dump=frames")
    assert shown.count(" FDE ") == 3 and "ZERO terminator" in shown


@on_x86
def test_the_loader_chooses_a_function(tmp_path: Path) -> None:
    file = library(program(RESOLVED), [b"run"], tmp_path)
    loaded = ctypes.CDLL(str(file))
    loaded.run.restype = ctypes.c_double
    assert loaded.run() == 3.0
    assert "IRELATIV" in readelf(file, "-r")
    assert "UNIX - GNU" in readelf(file, "-h")


@pytest.mark.parametrize("text", [CALLER, RESOLVED])
def test_elflint_finds_nothing(text: str, tmp_path: Path) -> None:
    needs("eu-elflint")
    made = program(TABLE, text) if text == CALLER else program(text)
    file = library(made, EXPORTS if text == CALLER else [b"run"], tmp_path)
    done = subprocess.run(["eu-elflint", "--strict", file], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "No errors\n", "")


@on_x86
@pytest.mark.parametrize("flags", [(), ("-static",), ("-no-pie",)])
def test_an_archive_links(flags: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    exports = [*EXPORTS, b"run"]
    code = linkable_object(program(TABLE, CALLER, RESOLVED), exports)
    (tmp_path / "libx.a").write_bytes(archive("a_name_of_more_than_16_letters.o", code, exports))
    (tmp_path / "use.c").write_text(
        "double chosen(long, long); double run(void); double inner(long i) { return 100.0 + i; }\n"
        "int main(void) { return (int)(chosen(3, 1) + run()) + (inner(0) != 100.0); }\n"
    )
    words = ["gcc", *flags, "use.c", "libx.a", "-o", "use"]
    assert subprocess.run(words, cwd=tmp_path).returncode == 0
    assert subprocess.run(["./use"], cwd=tmp_path).returncode == 11


def test_equal_programs_give_equal_bytes() -> None:
    first, second = (
        b"".join(shared_library(program(TABLE, CALLER), EXPORTS, "libx.so")) for _ in range(2)
    )
    assert first == second


def test_merged_objects_can_be_linked(tmp_path: Path) -> None:
    target = target_for("generic")
    merged = merge_objects([compile_to_part(text, target) for text in (TABLE, CALLER)])
    shown = readelf(library(combine([read_object(merged)]), EXPORTS, tmp_path), "-S")
    assert ".data.rel.ro" in shown and ".eh_frame_hdr" in shown


def test_code_for_another_machine_is_linked(tmp_path: Path) -> None:
    made = program(TABLE, CALLER, target=target_for("aarch64"))
    file = library(made, EXPORTS, tmp_path)
    assert struct.unpack_from("<H", file.read_bytes(), 18) == (183,)
    assert "R_AARCH64_RELATIV" in readelf(file, "-r")


def test_a_program_must_define_what_it_uses() -> None:
    with pytest.raises(InternalError, match="a library must define what it uses, got no inner"):
        shared_library(program(CALLER), EXPORTS, "libx.so")
