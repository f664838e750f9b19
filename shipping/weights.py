"""The weights of a compiled model as a safetensors file, which is mapped and used in place.

Tensors are named after the constants of the optimized graph. Those in a packed layout are listed as bytes, and the
metadata say which type and layout they have; so are the bytes between tensors, which align them.
"""

from __future__ import annotations

import hashlib
import json
import struct

from ..base.records import dataclass
from ..codegen.elf.writer import Chunk
from ..runtime.abi import ALIGNMENT
from ..runtime.artifact import Artifact
from ..runtime.tensors import stored_tensors


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
    for x in stored_tensors(artifact.graph, artifact.constants.nbytes):
        entries[x.name] = {"dtype": x.dtype, "shape": x.shape, "data_offsets": [x.begin, x.end]}
        if x.layout:
            layouts[x.name] = x.layout
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
