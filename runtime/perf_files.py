"""Tells Linux' `perf` which functions lie at which addresses, if GRAPHC_PERF says how.

`map` writes /tmp/perf-PID.map: names for `perf report`. `jitdump` writes jit-PID.dump with the code itself, which
`perf inject --jit` makes annotations of; `perf record -k mono` must be told to use the clock of its records.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ..base.errors import UserError

VARIABLE = "GRAPHC_PERF"
_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_FUNCTION, _GLOBAL, _SYMBOLS = 2, 1, 2
_HEAD = struct.Struct("<IIIIIIQQ")
_LOAD = struct.Struct("<IIQIIQQQQ")
_MAGIC, _VERSION = 0x4A695444, 1
"""tools/perf/Documentation/jitdump-specification.txt of Linux."""


class Symbol(NamedTuple):
    """A function of an object: where its code lies in its section, and the code."""

    name: str
    offset: int
    code: bytes
    is_exported: bool


def announce(
    object_code: bytes, address: Callable[[str], int], environ: Mapping[str, str] = os.environ
) -> None:
    """Announce the functions of an ELF object; `address` returns that of an exported one. Raise UserError for a wrong
    value of GRAPHC_PERF."""
    form = environ.get(VARIABLE, "")
    if not form:
        return
    if form not in _WRITERS or not object_code.startswith(b"\x7fELF"):
        raise UserError(f"{VARIABLE} must be {' or '.join(_WRITERS)}, on Linux, got '{form}'")
    found = [*functions(object_code)]
    known = next((symbol for symbol in found if symbol.is_exported), None)
    if known is not None:
        base = address(known.name) - known.offset
        _WRITERS[form]((base + symbol.offset, symbol) for symbol in found)


def functions(code: bytes) -> Iterator[Symbol]:
    """Yield the functions in the text section of an ELF object."""
    (table,) = struct.unpack_from("<Q", code, 40)
    (count,) = struct.unpack_from("<H", code, 60)
    sections = [_SECTION.unpack_from(code, table + i * _SECTION.size) for i in range(count)]
    for section in sections:
        if section[1] != _SYMBOLS:
            continue
        strings = sections[section[6]][4]
        for start, info, _, index, value, size in _SYMBOL.iter_unpack(
            code[section[4] : section[4] + section[5]]
        ):
            if info & 15 == _FUNCTION and 0 < index < count and size:
                at = sections[index][4] + value
                end = code.index(b"\0", strings + start)
                name = code[strings + start : end].decode(errors="replace")
                yield Symbol(name, value, code[at : at + size], info >> 4 == _GLOBAL)


def _write_map(found: Iterator[tuple[int, Symbol]]) -> None:
    path = f"/tmp/perf-{os.getpid()}.map"
    with open(path, "a", opener=_not_through_links) as stream:
        for address, symbol in found:
            stream.write(f"{address:x} {len(symbol.code):x} {symbol.name}\n")


def _write_dump(found: Iterator[tuple[int, Symbol]]) -> None:
    stream, lock = _dump_of(os.getpid())
    with lock:
        for address, symbol in found:
            name = symbol.name.encode() + b"\0"
            size = _LOAD.size + len(name) + len(symbol.code)
            stream.write(
                _LOAD.pack(
                    0, size, time.monotonic_ns(), os.getpid(), threading.get_native_id(), address, address,
                    len(symbol.code), address,
                ) + name + symbol.code
            )  # fmt: skip
        stream.flush()


def _not_through_links(path: str, flags: int) -> int:
    """Open a file in a folder in which other users can make links with the same name."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o644)


@cache
def _dump_of(pid: int) -> tuple[BinaryIO, threading.Lock]:
    """Open the dump of a process. `perf` finds it by a mapping of it that is executable."""
    path = Path(tempfile.gettempdir()) / f"jit-{pid}.dump"
    stream = open(path, "w+b", opener=_not_through_links)  # noqa: SIM115 - open until the process ends
    with Path("/proc/self/exe").open("rb") as program:
        machine = int.from_bytes(program.read(20)[18:], "little")
    now = time.monotonic_ns()
    stream.write(_HEAD.pack(_MAGIC, _VERSION, _HEAD.size, machine, 0, pid, now, 0))
    stream.flush()
    _MAPPINGS.append(
        mmap.mmap(stream.fileno(), _HEAD.size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
    )
    return stream, threading.Lock()


_MAPPINGS: list[mmap.mmap] = []
_WRITERS: dict[str, Callable[[Iterator[tuple[int, Symbol]]], None]] = {
    "map": _write_map,
    "jitdump": _write_dump,
}
