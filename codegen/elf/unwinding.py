"""The table by which unwinders find the frame description of an address (`.eh_frame_hdr`, LSB 5.0, section 10.6.2)."""

from __future__ import annotations

import struct

from .combine import Section
from .object_file import frames

# Version 1; a 4-byte distance to the tables, a 4-byte count, and rows of 4-byte distances from this table.
_ENCODINGS = bytes((1, 0x1B, 0x03, 0x3B))


def search_table(tables: Section, address: int) -> bytes:
    """Return the sorted table of functions, to be loaded at `address`; `tables` are filled in already."""
    rows = []
    for offset, piece in tables.pieces:
        for at in frames(piece.data):
            row = tables.address + offset + at
            (distance,) = struct.unpack_from("<i", piece.data, at + 8)
            rows.append((row + 8 + distance - address, row - address))
    rows.sort()
    head = struct.pack("<4siI", _ENCODINGS, tables.address - address - 4, len(rows))
    return head + b"".join(struct.pack("<ii", *row) for row in rows)
