"""Writes sections, and the table of them, as an ELF file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .combine import Program, Section
from .records import (
    HEADER,
    HEADER_SIZE,
    IDENTITY,
    NOBITS,
    OF_GNU,
    RELOCATABLE,
    RESOLVED,
    SECTION,
    SECTION_SIZE,
    SEGMENT_SIZE,
    SHARED,
    STRTAB,
    Strings,
)

Chunk = bytes | bytearray | memoryview


def written(
    program: Program, sections: Sequence[Section], segments: Sequence[bytes] = ()
) -> list[Chunk]:
    """Return the parts of a file with these sections, in their order, and a table of their names.

    With `segments` it is a shared library, whose sections have offsets already except for those that are not loaded.
    """
    machine, names = program.machine, Strings()
    table = Section(".shstrtab", STRTAB)
    starts = [names.add(section.name.encode()) for section in (*sections, table)]
    table.append(bytes(names.data))
    every = [*sections, table]
    numbers = {section.name: number for number, section in enumerate(every, 1)}
    end = HEADER_SIZE + len(segments) * SEGMENT_SIZE
    chunks: list[Chunk] = [*segments]
    rows = [bytes(SECTION_SIZE)]
    for section, start in zip(every, starts, strict=True):
        section.offset = section.offset or end + -end % section.alignment
        chunks.append(bytes(section.offset - end))
        chunks.extend(contents(section, machine.padding))
        end = section.offset + (0 if section.type == NOBITS else section.size)
        link = numbers.get(section.link, 0)
        row = (section.type, section.flags, section.address, section.offset, section.size, link)
        rows.append(SECTION.pack(start, *row, section.info, section.alignment, section.entry))
    begin = end + -end % 8
    chunks += [bytes(begin - end), *rows]
    kind = SHARED if segments else RELOCATABLE
    segments_at = HEADER_SIZE if segments else 0
    counts = (SEGMENT_SIZE if segments else 0, len(segments), SECTION_SIZE, len(rows), len(every))
    is_gnu = any(symbol.type == RESOLVED for symbol in program.symbols)
    identity = IDENTITY + bytes((1, OF_GNU if is_gnu else 0)) + bytes(8)
    header = HEADER.pack(
        identity, kind, machine.number, 1, 0, segments_at, begin, 0, HEADER_SIZE, *counts
    )
    return [header, *chunks]


def contents(section: Section, padding: bytes) -> Iterator[Chunk]:
    """Yield the bytes of a section in order."""
    end = 0
    for offset, piece in section.pieces:
        yield padding * (offset - end)
        yield piece.data
        end = offset + len(piece.data)
    yield section.data
