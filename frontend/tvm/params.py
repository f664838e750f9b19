"""TVM's parameter files: named arrays, little endian, read and written one array at a time.

Layout: magic, reserved word, names (count, then length and UTF-8 bytes of each), count, then per array: magic, reserved
word, device, rank, element type (code, bits, lanes), shape, byte count, bytes in C order.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from ...dtypes import ALL, BOOL, DType, from_numpy
from ...errors import InternalError, UserError

Array = np.ndarray[Any, Any]

LIST_MAGIC = 0xF7E58D4F05049CB7
ARRAY_MAGIC = 0xDD5E40F096B4A13F
MXNET_MAGIC = 0x112  # of another format whose files are called .params too
CPU = 1

_CODES = {"int": 0, "uint": 1, "float": 2, "bool": 1}
_BFLOAT, _NEW_BOOL = 4, 6
_MOST_RANK = 64


class ParamsWriter:
    """Writes a params file whose names are known beforehand, array by array. OSError when the system refuses."""

    def __init__(self, path: str | os.PathLike[str], names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.written = 0
        self._stream: BinaryIO = open(path, "wb")  # noqa: SIM115 - closed by `close`
        self._stream.write(struct.pack("<QQQ", LIST_MAGIC, 0, len(self.names)))
        for name in self.names:
            data = name.encode()
            self._stream.write(struct.pack("<Q", len(data)) + data)
        self._stream.write(struct.pack("<Q", len(self.names)))

    def add(self, array: Array) -> None:
        """Write the next array."""
        if self.written == len(self.names):
            raise InternalError(f"a params file of {len(self.names)} names got one more array")
        self.written += 1
        self._stream.write(_header(from_numpy(array.dtype), array.shape))
        self._stream.write(np.ascontiguousarray(array).tobytes())

    def close(self) -> None:
        """Close the file; it is complete when every array was added."""
        self._stream.close()


def write_params(path: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Write a whole params file."""
    writer = ParamsWriter(path, list(arrays))
    try:
        for array in arrays.values():
            writer.add(array)
    finally:
        writer.close()


def read_params(path: str | os.PathLike[str]) -> dict[str, Array]:
    """All arrays of a params file by name. UserError where it is damaged."""
    return dict(iterate_params(path))


def iterate_params(path: str | os.PathLike[str]) -> Iterator[tuple[str, Array]]:
    """(name, array) in the order of the file, one in memory at a time. UserError where it is damaged."""
    with _Reader(Path(path)) as reader:
        names = reader.names()
        count = reader.word("the number of arrays")
        if count != len(names):
            raise reader.wrong(f"{len(names)} names must have as many arrays", str(count))
        for name in names:
            yield name, reader.array(name)


def _header(dtype: DType, shape: tuple[int, ...]) -> bytes:
    code = _BFLOAT if dtype.name == "bf16" else _CODES[dtype.kind]
    size = math.prod(shape) * dtype.size
    return (
        struct.pack("<QQ", ARRAY_MAGIC, 0)
        + struct.pack("<iii", CPU, 0, len(shape))
        + struct.pack("<BBH", code, dtype.bits, 1)
        + struct.pack(f"<{len(shape)}q", *shape)
        + struct.pack("<q", size)
    )


def _dtype_of(code: int, bits: int, lanes: int) -> DType | None:
    if lanes != 1:
        return None
    if code == _NEW_BOOL or (code == _CODES["uint"] and bits == 1):
        return BOOL
    for dtype in ALL:
        own = _BFLOAT if dtype.name == "bf16" else _CODES[dtype.kind]
        if (own, dtype.bits) == (code, bits):
            return dtype
    return None


class _Reader:
    """Reads with every size checked against what is left of the file before memory is taken."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._stream: BinaryIO = open(path, "rb")  # noqa: SIM115 - closed by __exit__
            self._left = os.fstat(self._stream.fileno()).st_size
        except OSError as error:
            raise UserError(f"cannot read '{path}' ({error.strerror})") from error

    def __enter__(self) -> _Reader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()

    def names(self) -> list[str]:
        """The magic and the names."""
        magic = self.word("the magic number")
        if magic != LIST_MAGIC:
            remedy = "; it is MXNet's" if magic & 0xFFFFFFFF == MXNET_MAGIC else ""
            raise self.wrong(
                f"a TVM params file starts with {LIST_MAGIC:#x}", f"{magic:#x}{remedy}"
            )
        self.word("the reserved word")
        found = []
        for _ in range(self.word("the number of names")):
            found.append(self.take(self.word("a name's length"), "a name").decode(errors="replace"))
        return found

    def array(self, name: str) -> Array:
        """The next array."""
        if (magic := self.word("an array")) != ARRAY_MAGIC:
            raise self.wrong(f"array '{name}' starts with {ARRAY_MAGIC:#x}", f"{magic:#x}")
        self.word("the reserved word")
        _, _, rank = struct.unpack("<iii", self.take(12, "a device and rank"))
        code, bits, lanes = struct.unpack("<BBH", self.take(4, "an element type"))
        dtype = _dtype_of(code, bits, lanes)
        if dtype is None:
            raise self.wrong(f"array '{name}' must have a known type", f"{code}/{bits}x{lanes}")
        if not 0 <= rank <= _MOST_RANK:
            raise self.wrong(f"array '{name}' must have at most {_MOST_RANK} axes", str(rank))
        shape = struct.unpack(f"<{rank}q", self.take(8 * rank, "a shape"))
        (size,) = struct.unpack("<q", self.take(8, "a byte count"))
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.size != size:
            raise self.wrong(
                f"array '{name}' {dtype}{list(shape)} must fit its byte count", str(size)
            )
        data = self.take(size, f"array '{name}'")
        return np.frombuffer(bytearray(data), dtype.numpy).reshape(shape)

    def word(self, what: str) -> int:
        """An unsigned 64-bit number."""
        return int.from_bytes(self.take(8, what), "little")

    def take(self, size: int, what: str) -> bytes:
        """The next bytes."""
        if size > self._left:
            raise self.wrong(f"{what} needs {size} bytes", f"{self._left} to the end of the file")
        self._left -= size
        return self._stream.read(size)

    def wrong(self, rule: str, got: str) -> UserError:
        """A fault of the file."""
        return UserError(f"'{self.path}': {rule}, got {got}")
