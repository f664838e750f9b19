"""Links a program into a shared library.

    segment R   headers, symbols, relocations of the loader, constants, unwinding tables
    segment RX  code, and stubs that jump to functions chosen by the loader
    segment RW  addresses, which the loader writes and then protects (full RELRO)

Nothing can be written after loading, and the stack is not executable. A segment starts in the file where the one before
ends, and in memory as far into the next page. Equal programs give equal bytes; the build id is their hash.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Sequence

from ...base.errors import InternalError
from .combine import Program, Section
from .fields import fill, signed
from .object_file import ADDRESSES, CODE, CONSTANTS, UNWINDING, Piece, Relocation, Symbol
from .records import (
    ALLOC,
    DYNAMIC,
    DYNSYM,
    EXECUTE,
    GLOBAL,
    GNU_HASH,
    HEADER_SIZE,
    NOBITS,
    NOTE,
    PROGBITS,
    RELA,
    RELOCATION,
    RESOLVED,
    SEGMENT,
    SEGMENT_SIZE,
    STRTAB,
    SYMBOL,
    SYMTAB,
    WRITE,
    Strings,
)
from .symbol_hash import hash_table
from .unwinding import search_table
from .writer import Chunk, written

_LOAD, _DYNAMIC, _NOTE, _UNWINDING, _STACK, _RELRO = (
    1, 2, 4, 0x6474E550, 0x6474E551, 0x6474E552,
)  # fmt: skip
_SEGMENTS = 8
_NOTE_HEAD = struct.pack("<III4s", 4, 20, 3, b"GNU\0")
_STUB_ALIGNMENT = 16
_BIND_NOW, _NOW_FLAG = 8, 1


def shared_library(program: Program, exports: Sequence[bytes], soname: str) -> list[Chunk]:
    """Return the parts of the file of a shared library that exports these symbols and no others.

    Raise InternalError if the program uses a symbol that it does not define, or a field cannot hold its value.
    """
    return _Linker(program, exports, soname).library()


class _Linker:
    def __init__(self, program: Program, exports: Sequence[bytes], soname: str) -> None:
        self._program, self._machine, self._soname = program, program.machine, soname
        if program.undefined:
            names = ", ".join(sorted(s.name.decode() for s in program.undefined))
            raise InternalError(f"a library must define what it uses, got no {names}")
        self._exports = [s for s in program.symbols if s.name in set(exports) and not s.is_local]
        self._note = Section(".note.gnu.build-id", NOTE, ALLOC, 4)
        self._hash = Section(".gnu.hash", GNU_HASH, ALLOC, 8, ".dynsym")
        self._symbols = Section(".dynsym", DYNSYM, ALLOC, 8, ".dynstr", 1, SYMBOL.size)
        self._names = Section(".dynstr", STRTAB, ALLOC)
        self._moves = Section(".rela.dyn", RELA, ALLOC, 8, ".dynsym", 0, RELOCATION.size)
        self._frame_table = Section(".eh_frame_hdr", PROGBITS, ALLOC, 4)
        self._stubs = Section(".plt", PROGBITS, ALLOC | EXECUTE, _STUB_ALIGNMENT)
        self._dynamic = Section(".dynamic", DYNAMIC, ALLOC | WRITE, 8, ".dynstr", 0, 16)
        self._slots = Section(".got", PROGBITS, ALLOC | WRITE, 8, entry=8)
        flags = {CODE: EXECUTE, CONSTANTS: 0, UNWINDING: 0, ADDRESSES: WRITE}
        self._kinds = {k: Section(k, PROGBITS, ALLOC | flags[k]) for k in flags}
        self._positions = {p: (s := self._kinds[p.kind], s.add(p)) for p in program.pieces}
        if self._kinds[UNWINDING].size:
            self._kinds[UNWINDING].add(Piece(UNWINDING, bytes(4)))  # ends the table
        self._slot_of: dict[Symbol, int] = {}
        self._stub_of: dict[Symbol, int] = {}
        self._name_of: list[int] = []
        self._soname_at = self._relative_count = 0

    def library(self) -> list[Chunk]:
        """Fix sizes, then addresses, then contents."""
        self._reserve()
        sections, segments = self._laid_out()
        rows = self._loader_moves()
        for piece, relocation in self._relocations():
            self._fill(piece, relocation)
        kinds = {section.name: number for number, section in enumerate(sections, 1)}
        self._symbols.data[:] = b"".join(self._symbol_rows(kinds))
        self._moves.data[:] = b"".join(rows)
        self._dynamic.data[:] = b"".join(struct.pack("<QQ", *row) for row in self._tags())
        frames = self._kinds[UNWINDING]
        if frames.size:
            self._frame_table.data[:] = search_table(frames, self._frame_table.address)
        chunks = written(self._program, [*sections, *self._named(kinds)], segments)
        self._sign(chunks)
        return chunks

    def _relocations(self) -> Iterator[tuple[Piece, Relocation]]:
        return ((piece, r) for piece in self._positions for r in piece.relocations)

    def _reserve(self) -> None:
        """Fix the size of every section, and make those that need no address."""
        strings, addresses = Strings(), 0
        for piece, relocation in self._relocations():
            rule, symbol = self._machine.relocations.get(relocation.kind), relocation.symbol.real
            if rule is None:
                raise InternalError(f"relocations of type {relocation.kind} cannot be linked")
            if rule.field == "address":
                if piece.kind != ADDRESSES:
                    raise InternalError(
                        f"'{piece.kind}' holds an address: code must be independent of its position"
                    )
                addresses += 1
            is_resolved = symbol.type == RESOLVED
            if (rule.of == "slot" or is_resolved) and symbol not in self._slot_of:
                self._slot_of[symbol] = self._slots.append(bytes(8), 8)
            if is_resolved and symbol not in self._stub_of:
                self._stub_of[symbol] = self._stubs.append(bytes(16), _STUB_ALIGNMENT)
        self._exports = hash_table(self._hash, self._exports, 1)
        self._name_of = [strings.add(symbol.name) for symbol in self._exports]
        self._soname_at = strings.add(os.fsencode(self._soname))
        self._names.append(bytes(strings.data))
        self._symbols.append(bytes(SYMBOL.size * (1 + len(self._exports))))
        self._moves.append(bytes(RELOCATION.size * (addresses + len(self._slot_of))))
        self._note.append(_NOTE_HEAD + bytes(20))
        if self._kinds[UNWINDING].size:
            self._frame_table.append(bytes(len(search_table(self._kinds[UNWINDING], 0))))
        self._dynamic.append(bytes(16 * len(self._tags())))

    def _laid_out(self) -> tuple[list[Section], list[bytes]]:
        """Give every section its offset and address; return them in order, and the rows of the segments."""
        groups = (
            [self._note, self._hash, self._symbols, self._names, self._moves, self._frame_table,
             self._kinds[UNWINDING], self._kinds[CONSTANTS]],
            [self._kinds[CODE], self._stubs],
            [self._kinds[ADDRESSES], self._dynamic, self._slots],
        )  # fmt: skip
        page, end = self._machine.page, HEADER_SIZE + _SEGMENTS * SEGMENT_SIZE
        sections, rows, begin = [], [], 0
        for number, (group, access) in enumerate(zip(groups, (4, 5, 6), strict=True)):
            chosen = [section for section in group if section.size]
            if number:
                begin = end = end + -end % chosen[0].alignment
            for section in chosen:
                end += -end % section.alignment
                section.offset, section.address = end, end + number * page
                end += section.size
                sections.append(section)
            address, size = begin + number * page, end - begin
            # Only whole pages are protected.
            padding = -(address + size) % page if access == 6 else 0
            rows.append((_LOAD, access, begin, address, address, size, size + padding, page))
        rest = Section(".padding", NOBITS, ALLOC | WRITE, size=padding)
        rest.address, rest.offset = address + size, end
        sections += [rest] if padding else []
        for kind, access, section in (
            (_DYNAMIC, 6, self._dynamic), (_NOTE, 4, self._note), (_UNWINDING, 4, self._frame_table),
        ):  # fmt: skip
            where = section.offset, section.address, section.address, section.size, section.size
            rows.append((kind, access, *where, section.alignment))
        rows.append((_STACK, 6, 0, 0, 0, 0, 0, 16))
        rows.append((_RELRO, 4, *rows[2][2:7], 1))
        return sections, [SEGMENT.pack(*row) for row in rows]

    def _address(self, symbol: Symbol) -> int:
        """The address of a symbol, or that of the stub that jumps to a function which the loader chooses."""
        if symbol in self._stub_of:
            return self._stubs.address + self._stub_of[symbol]
        return self._target(symbol)

    def _target(self, symbol: Symbol) -> int:
        if symbol.piece is None:
            raise InternalError(f"'{symbol.name.decode()}' is in a section that is not loaded")
        section, offset = self._positions[symbol.piece]
        return section.address + offset + symbol.value

    def _fill(self, piece: Piece, relocation: Relocation) -> None:
        rule, symbol = self._machine.relocations[relocation.kind], relocation.symbol.real
        if rule.field == "address":
            return  # the loader writes it
        section, begin = self._positions[piece]
        field = section.address + begin + relocation.offset
        is_slot = rule.of == "slot"
        value = self._slots.address + self._slot_of[symbol] if is_slot else self._address(symbol)
        if not isinstance(piece.data, bytearray):
            piece.data = bytearray(piece.data)
        fill(piece.data, relocation.offset, rule, value + relocation.addend, field)

    def _loader_moves(self) -> list[bytes]:
        """The addresses that the loader writes, and the stubs that use them; the calls of functions come last."""
        plain: list[tuple[int, int]] = []
        resolved: list[tuple[int, int]] = []
        for piece, relocation in self._relocations():
            if self._machine.relocations[relocation.kind].field == "address":
                section, begin = self._positions[piece]
                value = self._address(relocation.symbol.real) + relocation.addend
                plain.append((section.address + begin + relocation.offset, value))
        for symbol, slot in self._slot_of.items():
            rows = resolved if symbol.type == RESOLVED else plain
            rows.append((self._slots.address + slot, self._target(symbol)))
        for symbol, at in self._stub_of.items():
            jump = self._machine.jump
            if not jump:
                raise InternalError(
                    "functions that the loader chooses are not supported for this machine"
                )
            slot = self._slots.address + self._slot_of[symbol]
            distance = slot - (self._stubs.address + at + len(jump) + 4)
            code = jump + signed(distance, 4)
            self._stubs.data[at : at + 16] = code + self._machine.padding * (16 - len(code))
        self._relative_count = len(plain)
        return [
            RELOCATION.pack(at, kind, value)
            for rows, kind in ((plain, self._machine.relative), (resolved, self._machine.resolved))
            for at, value in sorted(rows)
        ]

    def _tags(self) -> list[tuple[int, int]]:
        """The table of the loader."""
        tables = ((5, self._names), (6, self._symbols), (0x6FFFFEF5, self._hash))
        moves = self._moves
        found = [(14, self._soname_at), *((tag, s.address) for tag, s in tables)]
        found += [(10, self._names.size), (11, SYMBOL.size)]
        if moves.size:
            found += [(7, moves.address), (8, moves.size), (9, RELOCATION.size)]
            found += [(0x6FFFFFF9, self._relative_count)]
        return [*found, (30, _BIND_NOW), (0x6FFFFFFB, _NOW_FLAG), (0, 0)]

    def _symbol_rows(self, numbers: dict[str, int]) -> Iterator[bytes]:
        yield bytes(SYMBOL.size)
        for name, symbol in zip(self._name_of, self._exports, strict=True):
            yield self._row(name, symbol, GLOBAL, numbers)

    def _row(self, name: int, symbol: Symbol, binding: int, numbers: dict[str, int]) -> bytes:
        assert symbol.piece is not None
        section, _ = self._positions[symbol.piece]
        info = binding << 4 | symbol.type
        number, address = numbers[section.name], self._target(symbol)
        return SYMBOL.pack(name, info, 0, number, address, symbol.size)

    def _named(self, numbers: dict[str, int]) -> list[Section]:
        """All functions and constants by name, for debuggers and profilers."""
        strings, table = Strings(), Section(".symtab", SYMTAB, 0, 8, ".strtab", 1, SYMBOL.size)
        table.append(bytes(SYMBOL.size))
        for is_local in (True, False):
            for symbol in self._program.symbols:
                hidden = symbol.name.startswith(b".L") or not symbol.name or symbol.piece is None
                if hidden or (symbol not in self._exports) != is_local:
                    continue
                binding = 0 if is_local else GLOBAL
                table.append(self._row(strings.add(symbol.name), symbol, binding, numbers))
                table.info += is_local
        names = Section(".strtab", STRTAB)
        names.append(bytes(strings.data))
        return [table, names]

    def _sign(self, chunks: list[Chunk]) -> None:
        """Write the hash of the file into the note that identifies it."""
        digest = hashlib.sha256()
        for chunk in chunks:
            digest.update(chunk)
        self._note.data[len(_NOTE_HEAD) :] = digest.digest()[:20]
