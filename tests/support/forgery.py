"""Artifacts whose header was changed by somebody who can compute checksums."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

PRELUDE = struct.Struct("<8sIIQQ32s")


def forge(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the header and make the prelude agree: a lie that no checksum shows."""
    data = path.read_bytes()
    magic, version, abi, size, _, _ = PRELUDE.unpack(data[:64])
    header = json.loads(data[64 : 64 + size])
    change(header)
    # Room for the header is made by padding in front of the sections, whose offsets are moved along.
    text = json.dumps(header).encode()
    grown = -(-(64 + len(text)) // 64) * 64 + 256
    first = min(s["offset"] for s in json.loads(data[64 : 64 + size])["sections"])
    for section in header["sections"]:
        if isinstance(section, dict) and type(section.get("offset")) is int:
            section["offset"] += grown - first
    text = json.dumps(header).encode().ljust(grown - 64)
    body = data[first:]
    prelude = PRELUDE.pack(
        magic, version, abi, len(text), grown + len(body), hashlib.sha256(text).digest()
    )
    path.write_bytes(prelude + text + body)
