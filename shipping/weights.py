"""The weights of a compiled model as a safetensors file, which is mapped and used in place.

Tensors are named after the constants of the optimized graph. Those in a packed layout are listed as bytes, and the
metadata say which type and layout they have; so are the bytes between tensors, which align them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from collections.abc import Iterator

from ..base.dtypes import by_name
from ..base.errors import UserError
from ..base.records import dataclass
from ..codegen.elf.writer import Chunk
from ..runtime.abi import ALIGNMENT
from ..runtime.artifact import Artifact

_CONSTANT = re.compile(
    r"%(\S+) : .* = Node\[type=constant\] \(attrs = \{value: \[@(\d+)\]\}\) -> (\w+)\[([\d,]*)\](\{\S+\})?"
)
_TYPES = {
    "f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "bool": "BOOL",
    **{f"s{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""Names of element types in safetensors; all others are bytes there."""


@dataclass(frozen=True, eq=False)
class WeightsFile:
    """A weights file: its name and size, the bytes that identify it at its beginning, and the offset of the data."""

    name: str
    size: int
    head: bytes
    begin: int


def weights_file(artifact: Artifact, name: str) -> tuple[WeightsFile, list[Chunk]]:
    """Return the file with an artifact's weights, and its parts."""
    entries: dict[str, object] = {}
    layouts: dict[str, str] = {}
    for tensor, kind, shape, begin, end, layout in _tensors(artifact):
        entries[tensor] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
        if layout:
            layouts[tensor] = layout
    meta = artifact.metadata
    table = json.dumps(entries)[1:]
    digest = hashlib.sha256(table.encode())
    digest.update(artifact.constants.data)
    about = {
        "sha256": digest.hexdigest(), "model": meta.model, "isa": meta.isa, "format": "graphc", **layouts,
    }  # fmt: skip
    text = f'{{"__metadata__": {json.dumps(about)}' + (f", {table}" if entries else "}")
    data = text.encode()
    data += b" " * (-(8 + len(data)) % ALIGNMENT)
    head = struct.pack("<Q", len(data)) + data
    identity = head.index(about["sha256"].encode()) + len(about["sha256"])
    size = len(head) + artifact.constants.nbytes
    return WeightsFile(name, size, head[:identity], len(head)), [head, artifact.constants.data]


def _tensors(artifact: Artifact) -> Iterator[tuple[str, str, list[int], int, int, str]]:
    """Yield (name, type, shape, first byte, end, layout) of everything in the constants, in order and without gaps."""
    found: dict[int, tuple[str, str, list[int], str]] = {}
    for name, offset, dtype, dims, layout in _CONSTANT.findall(artifact.graph):
        shape = [int(dim) for dim in dims.split(",") if dim]
        found.setdefault(int(offset), (name, dtype, shape, layout))
    total = artifact.constants.nbytes
    begins = sorted(offset for offset in found if offset < total)
    if total and begins[:1] != [0]:
        found[0] = ("constants", "u8", [begins[0] if begins else total], "")
        begins.insert(0, 0)
    taken: set[str] = set()
    for begin, end in zip(begins, [*begins, total][1:], strict=True):
        name, dtype, shape, layout = found[begin]
        unique = name if name not in taken else f"{name}@{begin}"
        taken.add(unique)
        size = _size(dtype, shape) if dtype in _TYPES and not layout else -1
        if not 0 <= size <= end - begin:
            text = f"{dtype}[{','.join(map(str, shape))}]{layout}"
            yield unique, "U8", [end - begin], begin, end, text
            continue
        yield unique, _TYPES[dtype], shape, begin, begin + size, ""
        if begin + size < end:
            yield f"padding@{begin + size}", "U8", [end - begin - size], begin + size, end, ""


def _size(dtype: str, shape: list[int]) -> int:
    try:
        return math.prod(shape) * by_name(dtype).size
    except UserError:
        return -1
