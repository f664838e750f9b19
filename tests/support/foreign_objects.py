"""Objects of macOS and Windows, loaded by LLVM's linker and called on this machine: Mach-O and COFF for x86-64."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator

import numpy as np
from llvmlite import binding as llvm

from graphc.targets.systems import SYSTEMS

CONVENTIONS = {"macos": "ccc", "windows": "win64cc"}
"""LLVM's names of the calling conventions; macOS has that of Linux."""

_CALLS = """
define i64 @call(ptr %f, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %g, i64 %h) {
  %result = call CONVENTION i64 %f(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %g, i64 %h)
  ret i64 %result
}

define void @touch_stack() naked {
  call void asm sideeffect "ret", ""()
  unreachable
}
"""


_UNWINDING = {"macos": b"__eh_frame\0", "windows": b".pdata\0\0"}
"""The sections that LLVM registers with this system's unwinder, which reads both beyond their ends: neither is in
its form. The next C++ exception of the process, from whatever library, would end it."""


class ForeignObject:
    """An object of a system for x86-64, in memory; `call` follows the conventions of the system."""

    def __init__(self, code: bytes, system: str) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
        self._calls = _engine(llvm.get_process_triple(), _CALLS, CONVENTIONS[system])
        llvm.add_symbol("__chkstk", self._calls.get_function_address("touch_stack"))
        self._code = _engine(SYSTEMS[system].triples["x86_64"])
        section = _UNWINDING[system]
        hidden = code.replace(section, section.upper())
        self._code.add_object_file(llvm.ObjectFileRef.from_data(hidden))
        self._code.finalize_object()
        address = self._calls.get_function_address("call")
        self._call = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 8)(address)

    def call(self, name: str, *arguments: int) -> int:
        """Return the result of a function; at most 7 integers or addresses are its arguments."""
        address = self._code.get_function_address(name)
        assert address, name
        return int(self._call(address, *arguments, *[0] * (7 - len(arguments))))


def pointers(arrays: list[np.ndarray]) -> np.ndarray:
    """The addresses of arrays, as functions of a library take them."""
    return np.array([x.ctypes.data for x in arrays], np.uintp)


def visible_symbols(code: bytes, system: str) -> tuple[set[str], set[str]]:
    """The names that an object defines for others, and those that it needs of them."""
    found = _mach_o if system == "macos" else _coff
    defined, needed = set[str](), set[str]()
    for name, section in found(code):
        (defined if section > 0 else needed).add(name)
    return defined, needed


def _mach_o(code: bytes) -> Iterator[tuple[str, int]]:
    """External names, and the number of their section, 0 if it is in another object."""
    at, (commands,) = 32, struct.unpack_from("<I", code, 16)
    for _ in range(commands):
        kind, size = struct.unpack_from("<II", code, at)
        if kind == 2:  # LC_SYMTAB
            table, count, strings, _ = struct.unpack_from("<IIII", code, at + 8)
            for entry in range(table, table + 16 * count, 16):
                name, flags, section = struct.unpack_from("<IBB", code, entry)
                if flags & 1:  # N_EXT
                    yield _text(code, strings + name).removeprefix("_"), section
        at += size


def _coff(code: bytes) -> Iterator[tuple[str, int]]:
    table, count = struct.unpack_from("<II", code, 8)
    strings, index = table + 18 * count, 0
    while index < count:
        at = table + 18 * index
        section, _, storage, more = struct.unpack_from("<hHBB", code, at + 12)
        if storage == 2:  # IMAGE_SYM_CLASS_EXTERNAL
            is_long, offset = struct.unpack_from("<II", code, at)
            short = code[at : at + 8].rstrip(b"\0")
            yield short.decode() if is_long else _text(code, strings + offset), section
        index += 1 + more


def _text(code: bytes, at: int) -> str:
    return code[at : code.index(b"\0", at)].decode()


def _engine(triple: str, text: str = "", convention: str = "") -> llvm.ExecutionEngine:
    module = llvm.parse_assembly(text.replace("CONVENTION", convention))
    module.triple = triple
    machine = llvm.Target.from_triple(triple).create_target_machine(reloc="pic", codemodel="small")
    # With one block of memory for all sections: code reaches 2 GB, and holes between mappings are further apart.
    return llvm.create_mcjit_compiler(module, machine, use_lmm=True)
