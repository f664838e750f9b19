"""Programs without a C library that run the model of a shared library, for machines without a compiler here.

The library gets an address as from a loader: segments are copied and relative relocations applied. Code that is written
here loads seven arguments, calls the function, writes the outputs to stdout and ends with the status.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

BASE, STUB, DATA = 0x400000, 0x10000000, 0x20000000
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_RELATIVE = 1027  # R_AARCH64_RELATIVE
_WRITE, _EXIT = 64, 93  # system calls of Linux


def _constant(register: int, value: int) -> bytes:
    """Instructions that load a constant: movz, and movk three times."""
    parts = [value >> 16 * i & 0xFFFF for i in range(4)]
    words = [0xD2800000 | parts[0] << 5 | register]
    words += [0xF2800000 | i << 21 | parts[i] << 5 | register for i in (1, 2, 3)]
    return struct.pack("<4I", *words)


def program(
    library: bytes,
    prefix: str,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    arena_bytes: int,
    threads: int = 0,
) -> bytes:
    """Return an executable for AArch64 that calls `PREFIX_run(inputs, outputs, 0, 0, arena, arena_bytes, pool)`.

    `threads`: 0 for a null pool.
    """
    segments, functions = _loaded(library)

    def called(name: str) -> bytes:
        return _constant(9, functions[f"{prefix}_{name}"]) + struct.pack("<I", 0xD63F0120)  # blr x9

    data = bytearray(1 << 16)
    at = 1 << 12

    def put(array: np.ndarray) -> int:
        nonlocal at, data
        begin = at + -at % 64
        data.extend(bytes(max(0, begin + array.nbytes + 64 - len(data))))
        data[begin : begin + array.nbytes] = array.tobytes()
        at = begin + array.nbytes
        return DATA + begin

    sources, targets = [put(array) for array in inputs], [put(array) for array in outputs]
    struct.pack_into(f"<{len(sources)}Q", data, 0, *sources)
    struct.pack_into(f"<{len(targets)}Q", data, 2048, *targets)
    arena = put(np.zeros(arena_bytes + 64, np.uint8))
    code = _constant(0, threads) + (called("pool_create") if threads else b"")
    code += struct.pack("<I", 0xAA0003F4)  # mov x20, x0
    for _ in range(3 if threads else 1):
        words = DATA, DATA + 2048, 0, 0, arena, arena_bytes
        code += b"".join(_constant(i, v) for i, v in enumerate(words))
        code += struct.pack("<I", 0xAA1403E6) + called("run")  # mov x6, x20
        code += struct.pack("<I", 0xAA0003F3)  # mov x19, x0
    if threads:
        code += struct.pack("<I", 0xAA1403E0) + called("pool_destroy")  # mov x0, x20
    for array, target in zip(outputs, targets, strict=True):
        code += b"".join(
            _constant(*pair) for pair in ((0, 1), (1, target), (2, array.nbytes), (8, _WRITE))
        )
        code += struct.pack("<I", 0xD4000001)  # svc 0
    code += struct.pack("<I", 0xAA1303E0) + _constant(8, _EXIT) + struct.pack("<I", 0xD4000001)
    return _executable([*segments, (STUB, 5, code), (DATA, 6, bytes(data))])


def _loaded(library: bytes) -> tuple[list[tuple[int, int, bytes]], dict[str, int]]:
    """(address, access, bytes) of each segment after relocation, and the addresses of functions."""
    head = _HEADER.unpack_from(library)
    rows = [_SEGMENT.unpack_from(library, head[5] + 56 * i) for i in range(head[10])]
    memory = bytearray(max(row[3] + row[6] for row in rows if row[0] == 1))
    for row in rows:
        if row[0] == 1:
            memory[row[3] : row[3] + row[5]] = library[row[2] : row[2] + row[5]]
    (dynamic,) = (row for row in rows if row[0] == 2)
    tags = dict(struct.iter_unpack("<QQ", library[dynamic[2] : dynamic[2] + dynamic[5]]))
    for i in range(tags.get(8, 0) // 24):
        where, info, addend = struct.unpack_from("<QQq", memory, tags[7] + 24 * i)
        assert info == _RELATIVE
        struct.pack_into("<Q", memory, where, BASE + addend)
    names = bytes(memory[tags[5] : tags[5] + tags[10]])
    functions = {}
    for number in range(1, (tags[5] - tags[6]) // 24):
        name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", memory, tags[6] + 24 * number)
        if value:
            functions[names[name : names.index(b"\0", name)].decode()] = BASE + value
    access = {row[3]: row[1] for row in rows if row[0] == 1}
    found = [
        (BASE + row[3], access[row[3]], bytes(memory[row[3] : row[3] + row[6]]))
        for row in rows
        if row[0] == 1
    ]
    return found, functions


def _executable(segments: Sequence[tuple[int, int, bytes]]) -> bytes:
    page, body, rows = 0x10000, bytearray(0x10000), []
    for address, access, data in segments:
        body.extend(bytes((address - len(body)) % page))
        rows.append(
            _SEGMENT.pack(1, access, len(body), address, address, len(data), len(data), page)
        )
        body.extend(data)
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = _HEADER.pack(identity, 2, 183, 1, STUB, 64, 0, 0, 64, 56, len(rows), 64, 0, 0)
    body[: 64 + 56 * len(rows)] = head + b"".join(rows)
    return bytes(body)
