"""Reads relocatable ELF objects: those of LLVM, and those that `merge` has made of them.

A piece is a section that the program needs. An object of `merge` has one section, `.text`, as it can be loaded; it is
cut at the local symbol `CONSTANTS_MARK`, where the code ends and the constants begin. Its unwinding tables lie beside
it in a section that is not loaded, in which functions are named by their offset in `.text`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import field
from typing import NamedTuple

from ...base.errors import InternalError
from ...base.records import dataclass
from ...targets.machine_code import MACHINE_CODE, MachineCode
from .records import (
    ALLOC,
    EXECUTE,
    FILE_SYMBOL,
    GROUP_MEMBER,
    HEADER,
    HEADER_SIZE,
    IDENTITY,
    LOCAL,
    NOBITS,
    RELA,
    RELOCATABLE,
    RELOCATION,
    RESERVED,
    SECTION,
    SECTION_SIZE,
    SECTION_SYMBOL,
    SYMBOL,
    SYMTAB,
    THREAD_LOCAL,
    WRITE,
    text,
)

CODE, CONSTANTS, ADDRESSES, UNWINDING = ".text", ".rodata", ".data.rel.ro", ".eh_frame"
"""Kinds of pieces, and the sections they go to: ADDRESSES are constants that hold addresses."""

CONSTANTS_MARK = b"graphc.constants"
MERGED_UNWINDING = b".graphc.unwinding"


class Relocation(NamedTuple):
    """A field to fill at an offset of a piece, with the value of a symbol and an addend."""

    offset: int
    kind: int
    symbol: Symbol
    addend: int


@dataclass(eq=False)
class Piece:
    """A section of an object; `kind` is the section of the result."""

    kind: str
    data: bytes | bytearray | memoryview
    alignment: int = 1
    relocations: list[Relocation] = field(default_factory=list)


@dataclass(eq=False)
class Symbol:
    """A symbol at an offset of a piece; without a piece it is not defined here.

    `definition`: the symbol of another object that this one stands for.
    """

    name: bytes
    type: int = 0
    is_local: bool = False
    is_hidden: bool = False
    piece: Piece | None = None
    value: int = 0
    size: int = 0
    definition: Symbol | None = None

    @property
    def real(self) -> Symbol:
        """The definition, here or elsewhere."""
        return self.definition or self


@dataclass(frozen=True, eq=False)
class ObjectFile:
    """An object as read: its pieces and its symbols in their order, without those of files."""

    machine: MachineCode
    pieces: list[Piece]
    symbols: list[Symbol]


def read_object(code: bytes, renamed: tuple[str, str] | None = None) -> ObjectFile:
    """Read an object. Raise InternalError if it is none, or has sections that cannot be merged.

    `renamed`: (old, new), symbols that begin with `old` begin with `new` in the result.
    """
    return _Reader(code, renamed).read()


def frames(data: bytes | bytearray | memoryview) -> Iterator[int]:
    """Yield the offsets of the descriptions of functions in an unwinding table, without their common parts."""
    at = 0
    while at + 8 <= len(data):
        length, common = struct.unpack_from("<II", data, at)
        if common and length:
            yield at
        at += 4 + length


class _Reader:
    def __init__(self, code: bytes, renamed: tuple[str, str] | None) -> None:
        head = HEADER.unpack_from(code) if len(code) >= HEADER_SIZE else None
        if head is None or not code.startswith(IDENTITY) or head[1] != RELOCATABLE:
            raise InternalError(f"object code of {len(code)} bytes is not a relocatable 64-bit ELF")
        if head[2] not in MACHINE_CODE:
            raise InternalError(f"object code is for machine {head[2]}, which targets do not list")
        self._code = code
        self._machine = MACHINE_CODE[head[2]]
        self._renamed = tuple(name.encode() for name in renamed or ("", ""))
        rows = range(head[12])
        self._sections = [SECTION.unpack_from(code, head[6] + SECTION_SIZE * i) for i in rows]
        names = self._data(head[13])
        self._names = [text(names, section[0]) for section in self._sections]

    def read(self) -> ObjectFile:
        pieces = {
            number: self._piece(number)
            for number, section in enumerate(self._sections)
            if section[2] & ALLOC and section[5]
        }
        table = next(i for i, section in enumerate(self._sections) if section[1] == SYMTAB)
        symbols = list(self._symbols(table, pieces))
        for number, section in enumerate(self._sections):
            if section[1] == RELA and section[7] in pieces:
                pieces[section[7]].relocations = [
                    Relocation(offset, info & 0xFFFFFFFF, symbols[info >> 32], addend)
                    for offset, info, addend in RELOCATION.iter_unpack(self._data(number))
                ]
        found = list(pieces.values())
        mark = next((s for s in symbols if s.name == CONSTANTS_MARK), None)
        if mark is not None and mark.piece is not None:
            self._cut(mark.piece, mark, symbols, found)
            symbols.remove(mark)
            self._add_unwinding(found)
        return ObjectFile(self._machine, found, [s for s in symbols if s.type != FILE_SYMBOL])

    def _data(self, number: int) -> bytes:
        offset, size = self._sections[number][4:6]
        return self._code[offset : offset + size]

    def _piece(self, number: int) -> Piece:
        kind, flags, alignment = (self._sections[number][i] for i in (1, 2, 8))
        name = self._names[number].decode()
        is_written = flags & WRITE and not name.startswith(ADDRESSES)
        if kind == NOBITS or flags & (GROUP_MEMBER | THREAD_LOCAL) or is_written:
            raise InternalError(f"section '{name}' of an object cannot be merged")
        if name == UNWINDING:
            kind_of = UNWINDING
        elif flags & WRITE:
            kind_of = ADDRESSES
        else:
            kind_of = CODE if flags & EXECUTE else CONSTANTS
        return Piece(kind_of, self._data(number), max(alignment, 1))

    def _symbols(self, table: int, pieces: dict[int, Piece]) -> Iterator[Symbol]:
        names = self._data(self._sections[table][6])
        old, new = self._renamed
        for start, info, other, section, value, size in SYMBOL.iter_unpack(self._data(table)):
            name = text(names, start)
            if old and name.startswith(old):
                name = new + name[len(old) :]
            piece = pieces.get(section) if section < RESERVED else None
            # The file's name, or a symbol of an empty section, is never referenced.
            is_defined = section == 0 or piece is not None
            type_ = info & 15 if is_defined else FILE_SYMBOL
            is_local = info >> 4 == LOCAL
            yield Symbol(name, type_, is_local, bool(other & 3), piece, value, size)

    def _add_unwinding(self, pieces: list[Piece]) -> None:
        """Name functions by their offsets in the code, which the table of a merged object holds."""
        if MERGED_UNWINDING not in self._names:
            return
        code = next(piece for piece in pieces if piece.kind == CODE)
        whole = Symbol(b"", SECTION_SYMBOL, True, piece=code)
        table = Piece(UNWINDING, self._data(self._names.index(MERGED_UNWINDING)), 8)
        for at in frames(table.data):
            (begin,) = struct.unpack_from("<i", table.data, at + 8)
            table.relocations.append(Relocation(at + 8, self._machine.distance, whole, begin))
        pieces.append(table)

    def _cut(self, piece: Piece, mark: Symbol, symbols: list[Symbol], pieces: list[Piece]) -> None:
        """Cut the one section of a merged object into code and constants."""
        end = mark.value
        moved = [r for r in piece.relocations if r.offset >= end]
        kind = ADDRESSES if any(r.kind == self._machine.address for r in moved) else CONSTANTS
        constants = Piece(kind, piece.data[end:], piece.alignment)
        piece.data = piece.data[:end]
        constants.relocations = [r._replace(offset=r.offset - end) for r in moved]
        piece.relocations = [r for r in piece.relocations if r.offset < end]
        for symbol in symbols:
            if symbol.piece is piece and symbol.value >= end:
                symbol.piece, symbol.value = constants, symbol.value - end
        mark.type = SECTION_SYMBOL
        if len(constants.data):
            pieces.append(constants)
