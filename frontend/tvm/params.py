"""TVM's binary dictionary of tensors (`.params`), read without copying and written byte by byte the same."""

from __future__ import annotations

import math
import os
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from ...base.dtypes import BF16
from ...base.errors import InternalError, UnsupportedError, UserError
from ...base.file_errors import unreadable
from ...base.source_files import note_source
from ...base.whole_file import whole_file
from ...graph_ir.ir.graph import Array
from ..refusals import OTHER_TYPE

_LIST_MAGIC = 0xF7E58D4F05049CB7
_ARRAY_MAGIC = 0xDD5E40F096B4A13F
_MXNET_MAGIC = 0x112

FILE_MAGIC = struct.pack("<Q", _LIST_MAGIC)
"""The first bytes of a `.params` file."""

_DTYPES: dict[tuple[int, int], np.dtype] = {
    **{(0, bits): np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{(1, bits): np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{(2, bits): np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    (1, 1): np.dtype(np.bool_),
    (6, 8): np.dtype(np.bool_),
    (4, 16): BF16.numpy,
}
_AGAIN = "copy the file again"
_CODES = {dtype: key for key, dtype in reversed(_DTYPES.items())}
_CODES[np.dtype(np.bool_)] = (1, 1)

_MAX_AXES = 32


def read_params(source: str | os.PathLike[str] | bytes) -> dict[str, Array]:
    """The tensors of a `.params` file, or of the bytes of one, by name in the file's order.

    A file is mapped: its arrays are read-only views of it. Bytes after the last array are ignored, as TVM does.
    UserError names file and byte.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _Reader(memoryview(bytes(source)), "params").read()
    path = Path(source)
    note_source(path)
    try:
        if not path.stat().st_size:
            raise UserError(
                f"{path}: a .params file must begin with its magic number, but it is empty"
            )
        mapped: Any = np.memmap(path, np.uint8, "r")
    except OSError as error:
        raise unreadable(path, error) from error
    return _Reader(memoryview(mapped), str(path)).read()


def write_params(path: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Write a whole `.params` file. Raise OSError if the system refuses.

    The file is replaced, not overwritten: `arrays` may be views of the old one.
    """
    with whole_file(path) as file:
        file.writelines(params_chunks(arrays))


class ParamsWriter:
    """Writes a `.params` file whose names are known beforehand, array by array. Raise OSError if the system refuses."""

    def __init__(self, path: str | os.PathLike[str], names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.written = 0
        self._whole = ExitStack()
        self._stream = self._whole.enter_context(whole_file(path))
        self._stream.writelines(_head(self.names))

    def add(self, array: Array) -> None:
        """Write the next array."""
        if self.written == len(self.names):
            raise InternalError(f"a params file of {len(self.names)} names got one more array")
        self._stream.writelines(_array(self.names[self.written], array))
        self.written += 1

    def close(self) -> None:
        """Complete the file, to which every array was added."""
        self._whole.close()

    def discard(self, error: BaseException) -> None:
        """Leave no file, because of an error."""
        self._whole.__exit__(type(error), error, error.__traceback__)


def params_chunks(arrays: Mapping[str, Array]) -> Iterator[Any]:
    """The parts of a `.params` file one after the other, for `file.writelines`; arrays are not copied."""
    yield from _head(tuple(arrays))
    for name, value in arrays.items():
        yield from _array(name, value)


def _head(names: Sequence[str]) -> Iterator[bytes]:
    yield struct.pack("<QQQ", _LIST_MAGIC, 0, len(names))
    for name in names:
        encoded = name.encode(errors="surrogatepass")
        yield struct.pack("<Q", len(encoded)) + encoded
    yield struct.pack("<Q", len(names))


def _array(name: str, value: Array) -> Iterator[Any]:
    array = np.asarray(value, np.asarray(value).dtype.newbyteorder("<"), order="C")
    if array.dtype not in _CODES:
        raise UnsupportedError(
            f"parameter '{name}': dtype {array.dtype} has no code in .params files", OTHER_TYPE
        )
    code, bits = _CODES[array.dtype]
    head = struct.pack("<QQiiiBBH", _ARRAY_MAGIC, 0, 1, 0, array.ndim, code, bits, 1)
    yield head + struct.pack(f"<{array.ndim}qq", *array.shape, array.nbytes)
    yield array.reshape(-1).view(np.uint8).data if array.size else b""


class _Reader:
    def __init__(self, data: memoryview, label: str) -> None:
        self.data, self.label, self.at = data, label, 0

    def read(self) -> dict[str, Array]:
        (magic,) = self.unpack("<Q", "the magic number")
        if magic == _MXNET_MAGIC:
            raise UnsupportedError(
                f"{self.label}: parameters of MXNet are not supported, only those of TVM",
                "save them with TVM (`tvm.runtime.save_param_dict`)",
            )
        if magic != _LIST_MAGIC:
            raise self.error(f"the magic number must be {_LIST_MAGIC:#x}, got {magic:#x}", 0)
        _, count = self.unpack("<QQ", "the number of names")
        names = [self.name() for _ in range(self.plausible(count, 8, "names"))]
        repeated = next((name for name, times in Counter(names).items() if times > 1), None)
        if repeated is not None:
            raise self.error(f"names must be unique, got '{repeated}' twice")
        (arrays,) = self.unpack("<Q", "the number of arrays")
        if arrays != count:
            raise self.error(f"there must be as many arrays as names, got {arrays} and {count}")
        return {name: self.array(name) for name in names}

    def error(self, rule: str, at: int | None = None) -> UserError:
        return UserError(f"{self.label} byte {self.at if at is None else at}: {rule}")

    def plausible(self, count: int, size: int, what: str) -> int:
        """`count`, where as many things of at least `size` bytes can follow."""
        left = len(self.data) - self.at
        if count * size > left:
            raise self.error(
                f"{count} {what} do not fit in the {left} bytes that are left; {_AGAIN}"
            )
        return count

    def unpack(self, format: str, what: str) -> tuple[int, ...]:
        size = struct.calcsize(format)
        if self.at + size > len(self.data):
            raise self.error(f"the file ends inside {what}; {_AGAIN}")
        values = struct.unpack_from(format, self.data, self.at)
        self.at += size
        return values

    def name(self) -> str:
        (size,) = self.unpack("<Q", "a name")
        self.plausible(size, 1, "characters")
        raw = bytes(self.data[self.at : self.at + size])
        try:
            text = raw.decode(errors="surrogatepass")
        except UnicodeDecodeError as error:
            raise self.error("names must be UTF-8") from error
        self.at += size
        return text

    def array(self, name: str) -> Array:
        magic, _ = self.unpack("<QQ", f"array '{name}'")
        if magic != _ARRAY_MAGIC:
            raise self.error(
                f"array '{name}' must begin with {_ARRAY_MAGIC:#x}, got {magic:#x}", self.at - 16
            )
        _, _, rank, code, bits, lanes = self.unpack("<iiiBBH", f"array '{name}'")
        if not 0 <= rank <= _MAX_AXES:
            raise self.error(f"array '{name}' must have at most {_MAX_AXES} axes, got {rank}")
        shape = self.unpack(f"<{rank}q", f"array '{name}'")
        (size,) = self.unpack("<q", f"array '{name}'")
        if (code, bits) not in _DTYPES or lanes != 1:
            raise UnsupportedError(
                f"{self.label}: array '{name}' has element type code {code} of {bits} bits and {lanes} lanes, "
                "which is not supported",
                OTHER_TYPE,
            )
        dtype = _DTYPES[code, bits]
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size:
            raise self.error(
                f"array '{name}' of shape {list(shape)} and {dtype} cannot have {size} bytes; {_AGAIN}"
            )
        self.plausible(size, 1, f"bytes of array '{name}'")
        flat = np.frombuffer(self.data, np.uint8, size, self.at) if size else np.zeros(0, np.uint8)
        self.at += size
        return flat.view(dtype).reshape(shape)
