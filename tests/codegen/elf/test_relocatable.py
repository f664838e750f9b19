"""Objects merged into one: code, constants, calls across, and what is refused."""

from __future__ import annotations

import ctypes
import platform
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from graphc.base.errors import InternalError
from graphc.codegen.aot import compile_to_object
from graphc.codegen.elf.object_file import CODE, CONSTANTS, UNWINDING, read_object
from graphc.codegen.elf.relocatable import merge_objects
from graphc.codegen.host import target_for
from graphc.runtime.loader import LoadedCode
from support.process import PATIENCE

TABLE = """
@table = private unnamed_addr constant [4 x double] [double {0}, double {1}, double {2}, double {3}], align 32
define hidden double @{name}(i64 %i) nounwind {{
  %at = getelementptr [4 x double], ptr @table, i64 0, i64 %i
  %x = load double, ptr %at
  %y = fmul double %x, 1.25
  ret double %y
}}
"""
CALLER = """
declare hidden double @left(i64)
declare hidden double @right(i64)
declare double @fmod(double, double)
define double @both(i64 %i) nounwind {
  %a = call double @left(i64 %i)
  %b = call double @right(i64 %i)
  %s = fadd double %a, %b
  %r = call double @fmod(double %s, double 7.0)
  ret double %r
}
"""


def compiled(text: str) -> bytes:
    return compile_to_object(text, target_for("generic"))


def table(name: str, *values: float) -> bytes:
    return compiled(TABLE.format(*map(float, values), name=name))


LEFT, RIGHT = (1, 2, 3, 4), (10, 20, 30, 40)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_calls_and_constants_across_objects(order: tuple[int, ...]) -> None:
    objects = [table("left", *LEFT), table("right", *RIGHT), compiled(CALLER)]
    code = LoadedCode(merge_objects([objects[i] for i in order]))
    both = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(code.address("both"))
    assert [both(i) for i in range(4)] == [
        (1.25 * a + 1.25 * b) % 7 for a, b in zip(LEFT, RIGHT, strict=True)
    ]


def test_symbols_get_other_names() -> None:
    objects = [table("kernel", *LEFT), table("kernel", *RIGHT), compiled(CALLER)]
    names = [("kernel", "left"), ("kernel", "right"), None]
    code = LoadedCode(merge_objects(objects, names))
    both = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(code.address("both"))
    assert both(1) == (1.25 * LEFT[1] + 1.25 * RIGHT[1]) % 7


def test_merging_is_associative_and_repeatable() -> None:
    objects = [table("left", *LEFT), table("right", *RIGHT), compiled(CALLER)]
    merged = merge_objects(objects)
    assert merge_objects(objects) == merged
    again = LoadedCode(merge_objects([merge_objects(objects[:2]), objects[2]]))
    both = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(again.address("both"))
    assert both(1) == (2.5 + 25) % 7


def test_code_and_constants_are_one_section() -> None:
    """Whatever else is loaded might be mapped more than 2 GB from the code."""
    one = table("left", *LEFT)
    offset, count = struct.unpack_from("<Q", one, 40)[0], struct.unpack_from("<H", one, 60)[0]
    flags = [struct.unpack_from("<Q", one, offset + 64 * i + 8)[0] for i in range(count)]
    assert sum(bool(flag & 2) for flag in flags) == 1
    assert merge_objects([one]) == one


CROWDED = """
import ctypes, mmap, sys
from graphc.runtime.loader import LoadedCode

libc, flags = ctypes.CDLL(None), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
libc.mmap.restype, libc.munmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t]
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
LoadedCode(open(sys.argv[2], "rb").read())  # whatever Python and LLVM load, they have loaded now

def reserve(size):
    address = libc.mmap(None, size, 0, flags, -1, 0)
    if address == 2**64 - 1:
        sys.exit("no addresses are left")
    return address

below = reserve(8 << 30)
for size in (1 << 20, 1 << 16, 1 << 12):  # no gap is left above
    while reserve(size) > below:
        pass
hole = int(sys.argv[1]) << 12
libc.munmap(below + (8 << 30) - hole, hole)
code = LoadedCode(open(sys.argv[2], "rb").read())
print(ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(code.address("both"))(1))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other machines have other loaders")
@pytest.mark.parametrize("pages", [1, 2, 3])
def test_code_is_loaded_where_only_small_gaps_are_free(pages: int, tmp_path: Path) -> None:
    """The code and what its loader adds lie 8 GB apart: LLVM ended the process."""
    made = merge_objects([table("left", *LEFT), table("right", *RIGHT), compiled(CALLER)])
    (tmp_path / "code.o").write_bytes(made)
    command = [sys.executable, "-c", CROWDED, str(pages), str(tmp_path / "code.o")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if "no addresses are left" in done.stderr:
        pytest.skip("the address space of processes is limited to less than this test reserves")
    assert (done.stdout.strip(), done.returncode) == ("6.5", 0), done.stderr


def test_a_symbol_defined_twice_is_refused() -> None:
    one = table("left", *LEFT)
    with pytest.raises(InternalError, match="two objects define 'left'"):
        merge_objects([one, one])


@pytest.mark.parametrize("code", [b"", b"\x7fELF\x01\x01" + bytes(90), b"MZ" + bytes(100)])
def test_what_is_no_object_is_refused(code: bytes) -> None:
    with pytest.raises(InternalError, match="is not a relocatable 64-bit ELF"):
        merge_objects([table("left", *LEFT), code])


def test_sections_that_can_be_written_are_refused() -> None:
    with pytest.raises(InternalError, match=r"section '\.data' of an object cannot be merged"):
        compiled("@counter = global i64 3\ndefine ptr @where() nounwind { ret ptr @counter }\n")


def test_merged_objects_keep_their_unwinding_tables_and_constants_apart() -> None:
    """The linker of libraries needs both; the loader of the process reads neither."""
    text = CALLER.replace("nounwind", "nounwind uwtable")
    made = read_object(
        merge_objects([table("left", *LEFT), table("right", *RIGHT), compiled(text)])
    )
    pieces = {piece.kind: piece for piece in made.pieces}
    assert set(pieces) == {CODE, CONSTANTS, UNWINDING}
    assert struct.pack("<4d", *LEFT) in bytes(pieces[CONSTANTS].data)
    (begin,) = (r.symbol.value + r.addend for r in pieces[UNWINDING].relocations)
    both = next(symbol for symbol in made.symbols if symbol.name == b"both")
    assert begin == both.value
