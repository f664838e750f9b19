"""The file format of artifacts: a checked JSON header and named, aligned sections of bytes.

    offset  bytes
    0       8      magic
    8       4      format version, little endian like all numbers
    12      4      ABI version (see abi.py)
    16      8      bytes of the header
    24      8      bytes of the file
    32      32     SHA-256 of the header
    64             header: JSON; its key "sections" lists name, offset, size, SHA-256 of each section
    ...            sections, each at a multiple of 64 bytes, zeros between them

Every byte of the file is covered by a check, so a flipped one is always found.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import stat
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..base.aligned_memory import aligned_empty, large_alignment
from ..base.errors import UserError
from ..base.file_errors import unreadable, unwritable
from ..base.records import dataclass
from ..base.whole_file import whole_file
from . import signature
from .abi import ABI_VERSION, ALIGNMENT

Opener = Callable[[str, int], int]
"""Opens a path with some flags and returns a file descriptor, as `os.open` does."""

MAGIC = b"\x89GCM\r\n\x1a\n"
"""Contains a byte above 127 and both line endings, so that a transfer in text mode is detected as damage."""

FORMAT_VERSION = 1
MAX_HEADER_BYTES = 64 << 20

_PRELUDE = struct.Struct("<8sIIQQ32s")
_AGAIN = "compile the model again"


@dataclass(frozen=True)
class _Section:
    name: str
    offset: int
    size: int
    sha256: str


def write_container(
    path: Path,
    header: Mapping[str, Any],
    sections: Mapping[str, memoryview],
    is_entry: bool = False,
    sign: signature.KeyFile | None = None,
) -> None:
    """Write a container to `path` atomically: readers see the old file or the complete new one.

    `is_entry`: of a cache; only the user may open it, and it need not survive a crash of the system. `sign`: the file
    of a private key. Raise UserError if the system refuses the file.
    """
    text, offsets, size = _lay_out(header, sections, signature.signer(sign) if sign else None)
    prelude = _PRELUDE.pack(
        MAGIC, FORMAT_VERSION, ABI_VERSION, len(text), size, hashlib.sha256(text).digest()
    )
    try:
        if path.exists() and not path.is_file():
            raise UserError(f"{path}: is not a regular file; choose another name for the artifact")
        with whole_file(path, durable=not is_entry, private=is_entry) as file:
            file.write(prelude + text)
            for name, data in sections.items():
                file.write(bytes(offsets[name] - file.tell()))
                file.write(data)
    except OSError as error:
        raise unwritable(path, error) from error


def _lay_out(
    header: Mapping[str, Any],
    sections: Mapping[str, memoryview],
    sign: Callable[[Mapping[str, Any]], Mapping[str, str]] | None = None,
) -> tuple[bytes, dict[str, int], int]:
    """Return the header's JSON, every section's offset and the file's size."""
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in sections.items()}
    text = b""
    signed = {signature.KEY: signature.EMPTY} if sign else {}
    # The header contains offsets that depend on its own length: repeat until the length is stable, a few rounds at
    # most.
    while True:
        table, offsets = [], {}
        end = _PRELUDE.size + len(text)
        for name, data in sections.items():
            offsets[name] = -(-end // ALIGNMENT) * ALIGNMENT
            end = offsets[name] + data.nbytes
            table.append(
                {
                    "name": name,
                    "offset": offsets[name],
                    "size": data.nbytes,
                    "sha256": digests[name],
                }
            )
        whole = {**header, "sections": table, **signed}
        encoded = json.dumps(whole, allow_nan=False).encode()
        if len(encoded) <= len(text):
            if sign:
                whole[signature.KEY] = sign(whole)
                encoded = json.dumps(whole, allow_nan=False).encode()
            return encoded.ljust(len(text)), offsets, end
        text = encoded.ljust(len(encoded) + 16)


def read_container(
    path: Path,
    mapped: bool = False,
    opener: Opener | None = None,
    checked: bool = True,
    key: signature.KeyFile | None = None,
) -> tuple[dict[str, Any], dict[str, memoryview]]:
    """Return the header and the sections of a container, after checking every byte of it; of sections not `checked`
    only where they lie.

    The file is read into memory, of huge pages if it is large, or mapped read-only if `mapped`: processes share the
    pages then, and the file must not be truncated while they are in use, as the system ends what reads beyond its end.
    `opener` opens it, as that of `open`. `key`: the file of a public key, whose signature is required then.
    UserError naming the file and what is wrong: no such file, not an artifact, another version, truncated, corrupt.
    """
    where = path.name
    view = _open(path, mapped, opener)
    header_size = _check_prelude(view, where)
    text = bytes(view[_PRELUDE.size : _PRELUDE.size + header_size])
    if hashlib.sha256(text).digest() != view[32:64]:
        raise UserError(
            f"{where}: section 'header' is corrupt: its SHA-256 does not match; {_AGAIN}"
        )
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: header is not valid JSON ({error}); {_AGAIN}") from error
    if not isinstance(header, dict) or not isinstance(header.get("sections"), list):
        raise UserError(f"{where}: header lacks the section table; {_AGAIN}")
    if key:
        signature.verify(header, key, where)
    header.pop(signature.KEY, None)
    table = [_section(entry, where) for entry in header.pop("sections")]
    _check_layout(view, table, _PRELUDE.size + header_size, where)
    sections = {s.name: view[s.offset : s.offset + s.size] for s in table}
    for s in table if checked else ():
        if hashlib.sha256(sections[s.name]).hexdigest() != s.sha256:
            raise UserError(
                f"{where}: section '{s.name}' is corrupt: its SHA-256 does not match; {_AGAIN}"
            )
    return header, sections


def identity(path: Path) -> bytes:
    """Return the hash that covers a whole container, by way of those in its header; b"" where there is no container."""
    try:
        with path.open("rb") as file:
            head = file.read(_PRELUDE.size)
    except OSError:
        return b""
    return (
        bytes(_PRELUDE.unpack(head)[-1])
        if head.startswith(MAGIC) and len(head) == _PRELUDE.size
        else b""
    )


def _open(path: Path, mapped: bool, opener: Opener | None) -> memoryview:
    try:
        mode = stat.S_IFREG if opener else path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # opening a pipe waits for a writer
            raise UserError(f"{path}: is not a regular file; copy its contents into one")
        with open(path, "rb", opener=opener) as file:
            size = os.fstat(file.fileno()).st_size
            if size < _PRELUDE.size:
                raise UserError(
                    f"{path.name}: is not a compiled model (.gcm); `graphc compile -o` writes one"
                )
            if mapped:
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            memory = aligned_empty((size,), np.dtype(np.uint8), large_alignment(size))
            return memory.data[: file.readinto(memory.data)]
    except OSError as error:
        raise unreadable(path, error) from error


def _check_prelude(view: memoryview, where: str) -> int:
    """Return the header's size after checking everything the prelude says."""
    if view.nbytes < _PRELUDE.size:  # less than its size was read: a file of the system
        raise UserError(f"{where}: is not a compiled model (.gcm); `graphc compile -o` writes one")
    magic, version, abi, header_size, file_size, _ = _PRELUDE.unpack(view[: _PRELUDE.size])
    if magic != MAGIC:
        raise UserError(f"{where}: is not a compiled model (.gcm); `graphc compile -o` writes one")
    if version != FORMAT_VERSION:
        raise UserError(
            f"{where}: has artifact format {version}, this graphc reads {FORMAT_VERSION}; {_AGAIN}"
        )
    if abi != ABI_VERSION:
        raise UserError(f"{where}: was made for ABI {abi}, this graphc has {ABI_VERSION}; {_AGAIN}")
    if file_size != view.nbytes:
        raise UserError(
            f"{where}: is truncated or corrupt: it should have {file_size} bytes, but has {view.nbytes}; {_AGAIN}"
        )
    if header_size > min(file_size - _PRELUDE.size, MAX_HEADER_BYTES):
        raise UserError(f"{where}: header of {header_size} bytes does not fit; {_AGAIN}")
    return int(header_size)


def _section(entry: object, where: str) -> _Section:
    keys = {"name": str, "offset": int, "size": int, "sha256": str}
    if not isinstance(entry, dict) or any(type(entry.get(k)) is not t for k, t in keys.items()):
        raise UserError(f"{where}: an entry of the section table is malformed; {_AGAIN}")
    return _Section(*(entry[key] for key in keys))


def _check_layout(view: memoryview, table: list[_Section], begin: int, where: str) -> None:
    """Check that sections are inside the file, aligned, ordered, disjoint, zeros between them and nothing after."""
    names = [s.name for s in table]
    if len(set(names)) != len(names):
        raise UserError(f"{where}: section names must differ, got {', '.join(names)}; {_AGAIN}")
    end, before = begin, "header"
    for s in table:
        if s.size < 0 or s.offset < 0 or s.offset + s.size > view.nbytes:
            raise UserError(
                f"{where}: section '{s.name}' ({s.size} bytes at {s.offset}) lies outside "
                f"the file of {view.nbytes} bytes; {_AGAIN}"
            )
        if s.offset < end:
            raise UserError(f"{where}: sections '{before}' and '{s.name}' overlap; {_AGAIN}")
        if s.offset % ALIGNMENT:
            raise UserError(f"{where}: section '{s.name}' is not aligned; {_AGAIN}")
        _check_gap(view, end, s.offset, where)
        end, before = s.offset + s.size, s.name
    _check_gap(view, end, view.nbytes, where)


def _check_gap(view: memoryview, begin: int, end: int, where: str) -> None:
    if end - begin >= ALIGNMENT or any(view[begin:end]):
        raise UserError(
            f"{where}: bytes {begin} to {end} belong to no section and are not padding; {_AGAIN}"
        )
