"""Loads object code into the process and detects what this CPU can run: the only file of the runtime that uses LLVM."""

from __future__ import annotations

import struct
import sys
import weakref
from collections.abc import Iterable
from functools import cache

import llvmlite.binding as llvm

from ..base.errors import InternalError, UserError
from ..targets.isa import ISAS
from ..targets.systems import SYSTEMS, system_of
from .metadata import Metadata
from .perf_files import announce


class LoadedCode:
    """Object code mapped into the process.

    The code is unmapped when the last reference to this object goes, so whoever keeps an address keeps the object too.
    """

    def __init__(self, object_code: bytes) -> None:
        _check_object(object_code)
        _initialize()
        # A fresh engine per object: closing it frees everything; shared engines leak with every object.
        module = llvm.parse_assembly("")
        machine = llvm.Target.from_default_triple().create_target_machine()
        self._engine = llvm.create_mcjit_compiler(module, machine)
        # At exit other threads may still run the code: the system unmaps it then.
        self._finalizer = weakref.finalize(self, self._engine.close)
        self._finalizer.atexit = False
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(object_code))
        self._engine.finalize_object()
        announce(object_code, self.address)

    def address(self, symbol: str) -> int:
        """Return the address of an exported symbol. Raise InternalError if the object lacks it."""
        address = self._engine.get_function_address(symbol)
        if not address:
            raise InternalError(f"object code does not export '{symbol}'")
        return int(address)

    def keep_forever(self) -> None:
        """Never unmap the code: threads that end with the process run in it."""
        self._finalizer.detach()
        self._engine.detach()


def check_cpu(metadata: Metadata, label: str) -> None:
    """Raise UserError if this CPU lacks something the code of `label` needs; must be called before it is loaded."""
    architecture = metadata.triple.partition("-")[0]
    here = llvm.get_process_triple().partition("-")[0]
    if architecture and architecture != here:
        raise UserError(
            f"{label}: is code for {architecture}, this CPU is {here}; recompile it here"
        )
    system = system_of(metadata.triple)
    if system:
        raise UserError(
            f"{label}: is code for {system}, which a program's linker loads; write it as a native library "
            f"(`graphc.export`, -o m{SYSTEMS[system].suffix})"
        )
    missing = [f for f in metadata.cpu_features if f not in host_features()]
    if missing:
        isa = best_isa(host_features())
        raise UserError(
            f"{label}: needs {metadata.isa} ({', '.join(missing)}), this CPU has {isa}; "
            f"recompile with --target {isa}"
        )


def best_isa(features: Iterable[str]) -> str:
    """Return the widest ISA whose instructions a CPU with these LLVM features has."""
    present = set(features)
    return next(name for name, isa in ISAS.items() if present.issuperset(isa.needs))


@cache
def host_features() -> frozenset[str]:
    """Return the LLVM names of the features of the running CPU that its system lets programs use."""
    return frozenset(name for name, on in llvm.get_host_cpu_features().items() if on)


def _check_object(code: bytes) -> None:
    """Raise InternalError if `code` is not a whole ELF object: LLVM would end the process instead of saying so."""
    if not sys.platform.startswith("linux"):
        return
    problem = "has no ELF header"
    if len(code) >= 64 and code.startswith(b"\x7fELF"):
        (kind,) = struct.unpack_from("<H", code, 16)
        (table,) = struct.unpack_from("<Q", code, 40)
        entry, entries = struct.unpack_from("<HH", code, 58)
        if kind == 1 and table + entry * entries <= len(code):
            return
        problem = "is truncated or not relocatable"
    raise InternalError(f"object code of {len(code)} bytes cannot be loaded: it {problem}")


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
