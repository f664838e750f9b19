"""Records and numbers of ELF files, and tables of names (System V ABI, edition 4.1, chapters 4 and 5)."""

from __future__ import annotations

import struct

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")
SEGMENT = struct.Struct("<IIQQQQQQ")
IDENTITY = b"\x7fELF\x02\x01"
OF_GNU = 3
"""The system of files with symbols that the loader resolves."""

RELOCATABLE, SHARED = 1, 3  # types of files
PROGBITS, SYMTAB, STRTAB, RELA, DYNAMIC, NOTE, NOBITS, DYNSYM, GNU_HASH = (
    1, 2, 3, 4, 6, 7, 8, 11, 0x6FFFFFF6,
)  # fmt: skip
WRITE, ALLOC, EXECUTE, INFO_LINK, GROUP_MEMBER, THREAD_LOCAL = 1, 2, 4, 0x40, 0x200, 0x400
FUNCTION, SECTION_SYMBOL, FILE_SYMBOL, RESOLVED = 2, 3, 4, 10  # types of symbols
LOCAL, GLOBAL = 0, 1
RESERVED = 0xFF00
"""Numbers from here on are not sections."""

HEADER_SIZE, SECTION_SIZE, SEGMENT_SIZE = HEADER.size, SECTION.size, SEGMENT.size


class Strings:
    """A string table: each name once, terminated by zero."""

    def __init__(self) -> None:
        self.data = bytearray(1)
        self._known: dict[bytes, int] = {b"": 0}

    def add(self, name: bytes) -> int:
        """Return the offset of the name."""
        if name not in self._known:
            self._known[name] = len(self.data)
            self.data.extend(name + b"\0")
        return self._known[name]


def text(strings: bytes, start: int) -> bytes:
    """Return the name at an offset of a string table."""
    return strings[start : strings.index(b"\0", start)]
