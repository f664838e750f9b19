"""Runs models that are compiled for AArch64 in QEMU: as one program without a C library, which writes its results to
stdout."""

from __future__ import annotations

import math
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from graphc.codegen.aot import compile_to_part
from graphc.codegen.elf.combine import combine
from graphc.codegen.elf.object_file import CODE, ObjectFile, Piece, Symbol, read_object
from graphc.codegen.elf.shared_library import shared_library
from graphc.driver.stages import Compilation
from support.process import PATIENCE

EMULATOR = "qemu-aarch64"
needs_emulator = pytest.mark.skipif(
    shutil.which(EMULATOR) is None, reason=f"{EMULATOR} is not installed"
)

_START = """
define void @_start() "frame-pointer"="all" {{
entry:
  %inputs = alloca [{inputs} x ptr], align 64
  %outputs = alloca [{outputs} x ptr], align 64
  %results = alloca [{bytes} x i8], align 64
  %arena = alloca [{arena} x i8], align 64
{stores}
  %status = call i32 @graphc_entry(ptr %inputs, ptr %outputs, ptr null, ptr @constants, ptr %arena, ptr null)
  %address = ptrtoint ptr %results to i64
  br label %write
write:
  %from = phi i64 [ %address, %entry ], [ %rest.from, %write ]
  %left = phi i64 [ {bytes}, %entry ], [ %rest, %write ]
  %done = call i64 @syscall(i64 1, i64 %from, i64 %left, i64 64)
  %rest.from = add i64 %from, %done
  %rest = sub i64 %left, %done
  %more = icmp sgt i64 %rest, 0
  br i1 %more, label %write, label %end
end:
  %code = sext i32 %status to i64
  call i64 @syscall(i64 %code, i64 0, i64 0, i64 93)
  unreachable
}}
declare i32 @graphc_entry(ptr, ptr, ptr, ptr, ptr, ptr)
declare i64 @syscall(i64, i64, i64, i64)
"""
"""The program: 64 and 93 are Linux' numbers of write and exit."""

_SYSCALL = bytes.fromhex("e80303aa 010000d4 c0035fd6")
"""`mov x8, x3; svc #0; ret`, as llvmlite has no assembler for AArch64."""


def run_emulated(
    compilation: Compilation, inputs: Sequence[np.ndarray], folder: Path
) -> list[np.ndarray]:
    """The results of a model without dynamic sizes whose arrays fit the stack, on QEMU's CPU of all features."""
    metadata = compilation.artifact.metadata
    data = {"constants": np.asarray(compilation.artifact.constants)}
    data |= {f"x{number}": array for number, array in enumerate(inputs)}
    sizes = [-(-spec.nbytes // 64) * 64 for spec in metadata.outputs]
    starts = np.cumsum([0, *sizes])
    stores = [_store("inputs", i, f"@x{i}") for i in range(len(inputs))]
    for number in range(len(sizes)):
        stores.append(f"  %y{number} = getelementptr i8, ptr %results, i64 {starts[number]}")
        stores.append(_store("outputs", number, f"%y{number}"))
    text = _START.format(
        inputs=len(inputs), outputs=len(sizes), bytes=starts[-1], arena=max(metadata.arena_bytes, 1),
        stores="\n".join(stores),
    )  # fmt: skip
    globals_ = "\n".join(_constant(name, array) for name, array in data.items())
    objects = [
        compile_to_part(text + globals_, compilation.target),
        compilation.artifact.object_code,
    ]
    program = folder / "program"
    program.write_bytes(_executable(objects))
    program.chmod(0o755)
    command = [EMULATOR, "-cpu", "max", str(program)]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
    return [
        np.frombuffer(done.stdout[start:], spec.dtype.numpy, math.prod(spec.shape)).reshape(
            spec.shape
        )
        for spec, start in zip(metadata.outputs, starts, strict=False)
    ]


def _store(array: str, number: int, value: str) -> str:
    at = f"%{array}.{number}"
    return f"  {at} = getelementptr ptr, ptr %{array}, i64 {number}\n  store ptr {value}, ptr {at}"


def _constant(name: str, array: np.ndarray) -> str:
    text = "".join(f"\\{byte:02x}" for byte in np.ascontiguousarray(array).tobytes() or b"\0")
    return f'@{name} = internal constant [{len(text) // 3} x i8] c"{text}", align 64'


def _executable(objects: Sequence[bytes]) -> bytes:
    """A program that starts at `_start`: a library whose header names that symbol, its only export."""
    parts = [read_object(one) for one in objects]
    call = Piece(CODE, _SYSCALL, 4)
    name = Symbol(b"syscall", is_hidden=True, piece=call, size=len(_SYSCALL))
    parts.append(ObjectFile(parts[0].machine, [call], [name]))
    linked = shared_library(combine(parts), [b"_start"], "program")
    file = bytearray(b"".join(linked))
    (table,) = struct.unpack_from("<Q", file, 40)
    rows, width = struct.unpack_from("<H", file, 60)[0], 64
    for number in range(rows):
        _, kind, _, _, offset = struct.unpack_from("<IIQQQ", file, table + number * width)
        if kind == 11:  # symbols of the loader; the first is none
            file[24:32] = file[offset + 24 + 8 : offset + 24 + 16]
    return bytes(file)
