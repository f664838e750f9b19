"""Static archives with an index of symbols, without dates and owners: equal objects give equal bytes."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

MAGIC = b"!<arch>\n"


def archive(name: str, code: bytes, exports: Sequence[bytes]) -> bytes:
    """Return an archive of one object, by which linkers find these symbols."""
    names = b"".join(symbol + b"\0" for symbol in sorted(exports))
    long_names = os.fsencode(name) + b"/\n"
    index_size = 4 + 4 * len(exports) + len(names)
    start = len(MAGIC) + sum(60 + size + size % 2 for size in (index_size, len(long_names)))
    index = struct.pack(f">I{len(exports)}I", len(exports), *[start] * len(exports)) + names
    members = (("/", index), ("//", long_names), ("/0", code))
    return MAGIC + b"".join(_member(*member) for member in members)


def _member(name: str, data: bytes) -> bytes:
    head = f"{name:16}{0:<12}{0:<6}{0:<6}{'644':8}{len(data):<10}`\n"
    return head.encode() + data + b"\n" * (len(data) % 2)
