"""GGUF files: metadata and the table of tensors, whose bytes stay in the mapped file.

Layout (versions 2 and 3): magic, version, counts of tensors and of metadata pairs, the pairs, the table, then the data
from the next multiple of the alignment on. Each count and length is checked against the bytes that are left, so that
no file takes more memory than a small multiple of its size.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np

from ...base.block_types import BLOCK_TYPES, Array, BlockType
from ...base.errors import UnsupportedError, UserError
from ...base.file_errors import unreadable
from ...base.mapped_file import map_file
from ...base.records import dataclass
from ...base.source_files import note_source
from ..decoder.weights import BF16, Weight

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_SCALARS = {
    0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip
"""NumPy dtypes of the kinds of metadata values."""
_STRING, _ARRAY = 8, 9
_MAX_DIMS, _MAX_NESTING = 4, 4
_MAX_NAME = 63
"""Bytes of a tensor's name; llama.cpp refuses longer ones."""

_PLAIN_TYPES = {0: "<f4", 1: "<f2", 24: "i1", 25: "<i2", 26: "<i4", 27: "<i8", 28: "<f8"}
_BF16_CODE = 30
_BLOCK_TYPES = {one.code: one for one in BLOCK_TYPES}
_OTHER_TYPES = {
    16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S", 29: "IQ1_M", 34: "TQ1_0",
    41: "Q1_0", 42: "Q2_0",
}  # fmt: skip
"""Types that graphc does not read, by the number in the file."""

Value = Any
"""A value of the metadata: bool, int, float, bytes, or a list or an array of these."""


@dataclass(frozen=True)
class GgufFile:
    """The metadata and the tensors of a file, or of all files of a split model."""

    path: Path
    metadata: dict[str, Value]
    tensors: dict[str, Weight]

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string. Raise UserError if it is missing, without a default, or of another kind."""
        value = self._value(key, default)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if not isinstance(value, str):
            raise self.rule(f"'{key}' must be a string", repr(value)[:40])
        return value

    def number(self, key: str, default: float | None = None) -> int | float:
        """Return a number. UserError as `text`."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.rule(f"'{key}' must be a number", repr(value)[:40])
        return value

    def integer(self, key: str, default: int | None = None, min_value: int = 0) -> int:
        """Return an integer from `min_value` to 2**31 - 1. UserError as `text`."""
        value = self.number(key, default)
        if not isinstance(value, int) or not min_value <= value < 1 << 31:
            raise self.rule(f"'{key}' must be an integer from {min_value} to 2**31 - 1", str(value))
        return value

    def _value(self, key: str, default: Any) -> Any:
        value = self.metadata.get(key, default)
        if value is None:
            raise self.rule(f"the metadata must have '{key}'", "none")
        return value

    def rule(self, rule: str, values: str) -> UserError:
        """Return the error for a file that breaks a rule."""
        text = f"'{self.path}': {rule}, got {values}"
        return UserError(text)


def read_one(path: Path) -> GgufFile:
    """Read a GGUF file, without the others of a split model. May raise UserError or UnsupportedError."""
    return _Reader(path).read()


class _Reader:
    """Reads a mapped file from its beginning on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        note_source(path)
        try:
            self.data = np.frombuffer(map_file(path), np.uint8)
        except OSError as error:
            raise unreadable(path, error) from error
        self.at = 0

    def read(self) -> GgufFile:
        """The whole file."""
        tensors, pairs = self._header()
        metadata: dict[str, Value] = {}
        for _ in range(pairs):
            key = self._string().decode("utf-8", "replace")
            if key in metadata:
                raise self._rule("the keys of the metadata must differ", f"'{key}' twice")
            metadata[key] = self._value(*self._take("I"))
        entries = [self._entry() for _ in range(tensors)]
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise self._rule("general.alignment must be a power of two", str(alignment))
        start = -(-self.at // alignment) * alignment
        found: dict[str, Weight] = {}
        for name, dims, code, offset in entries:
            if name in found:
                raise self._rule("the names of tensors must differ", f"'{name}' twice")
            if offset % alignment:
                raise self._rule(
                    f"the offset of '{name}' must be a multiple of {alignment}", str(offset)
                )
            found[name] = self._tensor(name, dims, code, start + offset)
        return GgufFile(self.path, metadata, found)

    def _header(self) -> tuple[int, int]:
        """The counts of tensors and of metadata pairs."""
        magic, version = self._take("4sI")
        if magic != _MAGIC:
            raise self._rule("a GGUF file must begin with 'GGUF'", repr(magic))
        if version.to_bytes(4, "little") in (one.to_bytes(4, "big") for one in _VERSIONS):
            raise self._unsupported(
                "a big-endian file", "convert it to little-endian with the tools of llama.cpp"
            )
        if version not in _VERSIONS:
            raise self._unsupported(
                f"version {version}", "write it as version 3 with a newer converter"
            )
        tensors, pairs = self._take("QQ")
        self._check_count("tensors", tensors, 8 + 4 + 4 + 8)
        self._check_count("metadata pairs", pairs, 8 + 4 + 1)
        return tensors, pairs

    def _entry(self) -> tuple[str, tuple[int, ...], int, int]:
        """Name, dims outermost first, type and offset of a tensor."""
        raw = self._string()
        name = raw.decode("utf-8", "replace")
        if len(raw) > _MAX_NAME:
            raise self._rule(
                f"names of tensors must have at most {_MAX_NAME} bytes", f"'{name[:80]}'"
            )
        (rank,) = self._take("I")
        if rank > _MAX_DIMS:
            raise self._rule(f"'{name}' must have at most {_MAX_DIMS} dims", str(rank))
        dims = self._take(f"{rank}Q")[::-1]
        if 0 in dims:
            raise self._rule(f"the dims of '{name}' must be at least 1", str(list(dims)))
        code, offset = self._take("IQ")
        return name, dims, code, offset

    def _tensor(self, name: str, dims: tuple[int, ...], code: int, start: int) -> Weight:
        kind = (
            _BLOCK_TYPES.get(code)
            or _PLAIN_TYPES.get(code)
            or (BF16 if code == _BF16_CODE else None)
        )
        if kind is None:
            known = _OTHER_TYPES.get(code, f"of number {code}")
            raise self._unsupported(
                f"tensor '{name}' of type {known}",
                "quantize it as one of Q4_0 to Q8_0, Q2_K to Q6_K",
            )
        row = dims[-1] if dims else 1
        if isinstance(kind, BlockType):
            if row % kind.elements:
                raise self._rule(
                    f"rows of '{name}' must be a multiple of {kind.elements} long ({kind.name})",
                    str(row),
                )
            width = row // kind.elements * kind.size
        else:
            width = row * (2 if kind == BF16 else np.dtype(kind).itemsize)
        rows = math.prod(dims[:-1])
        if start + rows * width > len(self.data):
            raise self._rule(
                f"the file must hold all {rows * width} bytes of '{name}'",
                f"{len(self.data)} in all",
            )
        raw = self.data[start : start + rows * width].reshape(rows, width)
        return Weight(name, dims, kind, raw)

    def _value(self, kind: int, depth: int = 0) -> Value:
        if kind == _STRING:
            return self._string()
        if kind in _SCALARS:
            return self._numbers(_SCALARS[kind], 1)[0].item()
        if kind != _ARRAY or depth == _MAX_NESTING:
            raise self._rule(
                f"metadata must be of kinds 0 to 12, arrays at most {_MAX_NESTING} deep", str(kind)
            )
        element, count = self._take("IQ")
        if element in _SCALARS:
            return self._numbers(_SCALARS[element], count)
        self._check_count("elements of an array", count, 8)
        if element == _STRING:
            return self._strings(count)
        return [self._value(element, depth + 1) for _ in range(count)]

    def _strings(self, count: int) -> list[bytes]:
        """The strings of an array: a vocabulary has a quarter of a million."""
        found: list[bytes] = []
        at, data, length_at = self.at, self.data.data, struct.Struct("<Q").unpack_from
        last = len(data) - 8
        for _ in range(count):
            if at > last:
                break
            end = at + 8 + length_at(data, at)[0]
            found.append(data[at + 8 : end].tobytes())
            at = end
        self.at = min(at, len(data))
        if len(found) < count or at > len(data):
            self._check_count("strings of an array", count, len(data) + 1)
        return found

    def _numbers(self, dtype: str, count: int) -> Array:
        size = np.dtype(dtype).itemsize
        self._check_count("elements of an array", count, size)
        self.at += count * size
        return self.data[self.at - count * size : self.at].view(dtype)

    def _string(self) -> bytes:
        (length,) = self._take("Q")
        self._check_count("bytes of a string", length, 1)
        self.at += length
        return self.data[self.at - length : self.at].tobytes()

    def _take(self, form: str) -> tuple[Any, ...]:
        size = struct.calcsize("<" + form)
        self._check_count("bytes", size, 1)
        values = struct.unpack("<" + form, self.data[self.at : self.at + size].tobytes())
        self.at += size
        return values

    def _check_count(self, what: str, count: int, size: int) -> None:
        """Raise UserError if the file cannot hold `count` more of at least `size` bytes each."""
        if count * size > len(self.data) - self.at:
            raise self._rule(
                f"the file must be whole, with {count} {what} after byte {self.at}",
                f"{len(self.data)} bytes in all",
            )

    def _rule(self, rule: str, values: str) -> UserError:
        text = f"'{self.path}': {rule}, got {values}"
        return UserError(text)

    def _unsupported(self, what: str, remedy: str) -> UnsupportedError:
        return UnsupportedError(f"'{self.path}': {what} is not supported", remedy)
