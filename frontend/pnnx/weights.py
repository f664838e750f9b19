"""The `.bin` beside a `.param` file: a stored zip archive with one entry per attribute."""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np

from ...base.dtypes import BOOL
from ...base.errors import UnsupportedError, UserError
from ...base.file_errors import unreadable
from ...base.source_files import note_source
from ...graph_ir.ir.graph import Array
from ..refusals import OTHER_TYPE
from .program import TensorType

MAPPED_BYTES = 1 << 20
"""Weights of at least this size are mapped from the file, so that they are not in memory twice."""

_LOCAL_HEADER = 30  # bytes before the name; the lengths of name and extra field are its last four
_ENCRYPTED = 1
_AGAIN = "copy the file again"
# What zipfile raises for corrupt archives, version fields and names included.
_ZIP_ERRORS = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, OSError, ValueError, RuntimeError),
    *(OverflowError, EOFError, struct.error),
)


class Weights:
    """The archive, opened when the first weight is read; a model without weights needs none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: dict[str, zipfile.ZipInfo] | None = None

    def read(self, operator_name: str, key: str, declared: TensorType) -> Array:
        """Attribute `key` of an operator as a read-only array, [..., 2] of the parts of complex numbers.

        Raise UserError if archive or entry are missing, corrupt, or do not have the size of the declared shape.
        """
        who = f"weight '{operator_name}.{key}'"
        dtype = declared.dtype
        if dtype is None and declared.part is not None:  # pairs of parts
            pairs = TensorType((*declared.dims, 2), f"f{declared.part.bits}")
            return self.read(operator_name, key, pairs)
        if dtype is None:
            raise UnsupportedError(
                f"{who}: element type {declared.suffix} is not supported", OTHER_TYPE
            )
        dims = tuple(int(dim) for dim in declared.dims)
        count = math.prod(dims)
        if not count:
            return np.zeros(dims, dtype.numpy)
        data = self._entry(f"{operator_name}.{key}", who, count * dtype.size, str(declared))
        if dtype is BOOL:  # any non-zero byte is true, but a NumPy bool must be 0 or 1
            return (data != 0).reshape(dims)
        return data.view(dtype.numpy.newbyteorder("<")).view(dtype.numpy).reshape(dims)

    def _entry(self, name: str, who: str, needed: int, declared: str) -> Array:
        """The bytes of an entry, checked before any is allocated."""
        info = self._open().get(name)
        if info is None:
            raise UserError(f"{who}: '{self.path}' has no entry of that name; {_AGAIN}")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & _ENCRYPTED:
            raise UserError(
                f"{who}: entries of '{self.path}' must be stored, neither compressed nor encrypted"
            )
        if info.file_size != needed or info.compress_size != needed:
            raise UserError(
                f"{who}: {declared} takes {needed} bytes, but '{self.path}' has {info.file_size}"
            )
        try:
            data = self._bytes_of(info, who)
        except _ZIP_ERRORS as error:
            raise UserError(f"{who}: '{self.path}' cannot be read: {error}; {_AGAIN}") from error
        if zlib.crc32(data.data) != info.CRC:
            raise UserError(
                f"{who}: '{self.path}' is corrupt, the checksum of the entry does not match; {_AGAIN}"
            )
        return data

    def _bytes_of(self, info: zipfile.ZipInfo, who: str) -> Array:
        with self.path.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(info.header_offset)
            header = stream.read(_LOCAL_HEADER)
            is_header = len(header) == _LOCAL_HEADER and header.startswith(b"PK\x03\x04")
            lengths = struct.unpack("<HH", header[-4:]) if is_header else (size, 0)
            start = info.header_offset + _LOCAL_HEADER + sum(lengths)
            if start + info.file_size > size:
                raise UserError(
                    f"{who}: '{self.path}' is corrupt, the entry does not lie in the file; {_AGAIN}"
                )
            if info.file_size < MAPPED_BYTES:
                stream.seek(start)
                return np.frombuffer(stream.read(info.file_size), np.uint8)
        mapped = np.memmap(self.path, np.uint8, "r", start, (info.file_size,))
        return np.asarray(mapped)

    def _open(self) -> dict[str, zipfile.ZipInfo]:
        if self._entries is None:
            self._entries = _entries_of(self.path)
        return self._entries


def _entries_of(path: Path) -> dict[str, zipfile.ZipInfo]:
    try:
        note_source(path)
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except FileNotFoundError as error:
        raise unreadable(
            path, error, missing="the weights must lie beside the .param file"
        ) from error
    except _ZIP_ERRORS as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"the weights must be an archive, but '{path}' cannot be read as one ({reason})"
        ) from error
    entries: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        # Nothing is ever unpacked; such names indicate an archive made to attack programs that do.
        if ".." in info.filename.replace("\\", "/").split("/"):
            raise UserError(
                f"an entry of '{path}' must not lead out of its folder, got '{info.filename}'"
            )
        if info.filename in entries:
            raise UserError(
                f"entries of '{path}' must have distinct names, but '{info.filename}' is there twice"
            )
        entries[info.filename] = info
    return entries
