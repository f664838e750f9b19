"""Objects of several: one section that can be loaded, as LLVM's loader wants it, or several to be linked.

LLVM's loader maps every section separately, while code addresses its constants by 32-bit offsets: in a process that has
mapped gigabytes they may be too far apart, and LLVM then aborts the process. So `merge_objects` makes one section. For
the same reason functions of other libraries (`exp`) are called through addresses beside the code: the loader would put
a table of them elsewhere. Local symbols are renamed to be unique, as LLVM's loader looks them up by name too.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence

from .combine import Program, Section, combine
from .object_file import (
    ADDRESSES,
    CODE,
    CONSTANTS,
    CONSTANTS_MARK,
    MERGED_UNWINDING,
    UNWINDING,
    Piece,
    Relocation,
    Symbol,
    frames,
    read_object,
)
from .records import (
    ALLOC,
    EXECUTE,
    GLOBAL,
    INFO_LINK,
    PROGBITS,
    RELA,
    RELOCATION,
    SECTION_SYMBOL,
    STRTAB,
    SYMBOL,
    SYMTAB,
    WRITE,
    Strings,
)
from .writer import written

FLAGS = {CODE: ALLOC | EXECUTE, ADDRESSES: ALLOC | WRITE, CONSTANTS: ALLOC, UNWINDING: ALLOC}
_ADDRESS = 8
"""Bytes of an address."""
_TEMPORARY = b".L"
"""The beginning of names that LLVM gives to constants and that are not for readers."""


def merge_objects(
    objects: Sequence[bytes], names: Sequence[tuple[str, str] | None] | None = None
) -> bytes:
    """Merge `objects`, in order, into one object with one section that is loaded.

    Args:
        objects: relocatable ELF objects of one machine.
        names: by object, (old, new): symbols that begin with `old` begin with `new` in the result.

    Raises:
        InternalError: An object cannot be merged.
    """
    given = names or [None] * len(objects)
    program = combine([read_object(*pair) for pair in zip(objects, given, strict=True)])
    _reach_externals(program)
    whole = Section(CODE, flags=FLAGS[CODE])
    kinds = {kind: [p for p in program.pieces if p.kind == kind] for kind in FLAGS}
    offsets = {piece: whole.add(piece) for piece in kinds[CODE]}
    alignment = max((piece.alignment for piece in kinds[CONSTANTS]), default=1)
    end = whole.size = whole.size + -whole.size % alignment
    constants = (*kinds[CONSTANTS], *kinds[ADDRESSES])
    offsets |= {piece: whole.add(piece) for piece in constants}
    mark = Symbol(CONSTANTS_MARK, is_local=True, piece=Piece(CODE, b""))
    assert mark.piece is not None
    offsets[mark.piece] = end
    anchors = {piece: (mark, offsets[piece] - end) for piece in constants}
    program.symbols.append(mark)
    unwinding = _unwinding(kinds[UNWINDING], offsets)
    others = [unwinding] if unwinding.size else []
    return _written(program, [whole], offsets, others, anchors, unique=True)


def linkable_object(program: Program, exports: Collection[bytes]) -> bytes:
    """Return an object of several sections in which all symbols but `exports` are local: those of models that are
    linked into one program would collide. Only functions and constants that are exported keep their names."""
    sections = {kind: Section(kind, flags=flags) for kind, flags in FLAGS.items()}
    offsets = {piece: sections[piece.kind].add(piece) for piece in program.pieces}
    for symbol in program.symbols:
        if symbol.piece is not None:
            symbol.is_local, symbol.is_hidden = symbol.name not in exports, False
    return _written(program, [s for s in sections.values() if s.size], offsets)


def _unwinding(pieces: Sequence[Piece], offsets: dict[Piece, int]) -> Section:
    """The unwinding tables as a section that is not loaded; functions are offsets in the code."""
    section = Section(MERGED_UNWINDING.decode(), flags=0)
    for piece in pieces:
        data = bytearray(piece.data)
        begins = {r.offset: r for r in piece.relocations}
        for at in frames(data):
            offset, _, symbol, addend = begins[at + 8]
            real = symbol.real
            assert real.piece is not None
            struct.pack_into("<i", data, offset, offsets[real.piece] + real.value + addend)
        section.append(bytes(data), 8)
    return section


def _reach_externals(program: Program) -> None:
    """Redirect calls of functions in other libraries, and loads of their addresses, to an address kept in the code.

    Hidden symbols are defined by another object of the program and stay as they are.
    """
    machine = program.machine
    undefined = {s for s in program.undefined if not s.is_hidden}
    if not undefined or not machine.jump:
        return
    jump = machine.jump + struct.pack("<i", -_ADDRESS - len(machine.jump) - 4)
    entry = bytes(_ADDRESS) + jump + bytes(-len(jump) % _ADDRESS)
    table = Piece(CODE, b"", _ADDRESS)
    whole = Symbol(b"", SECTION_SYMBOL, True, piece=table)
    entries: dict[Symbol, int] = {}
    for piece in program.pieces:
        for number, (offset, kind, symbol, addend) in enumerate(piece.relocations):
            rule = machine.relocations[kind]
            if symbol.real not in undefined or rule.field != "distance":
                continue
            at = entries.setdefault(symbol.real, len(entries) * len(entry))
            at += _ADDRESS if rule.of == "symbol" else 0
            piece.relocations[number] = Relocation(offset, machine.distance, whole, at + addend)
    table.data = entry * len(entries)
    table.relocations += [Relocation(at, machine.address, s, 0) for s, at in entries.items()]
    if entries:
        program.pieces.append(table)


def _written(
    program: Program,
    sections: list[Section],
    offsets: dict[Piece, int],
    others: Sequence[Section] = (),
    anchors: dict[Piece, tuple[Symbol, int]] | None = None,
    unique: bool = False,
) -> bytes:
    """Write an object.

    `anchors`: by piece, the symbol and the offset from it by which its section symbol is replaced. With `unique`, local
    symbols get different names.
    """
    table = _SymbolTable(program, sections, offsets, anchors or {}, unique)
    moves = []
    for section in sections:
        data = b"".join(
            RELOCATION.pack(offset + r.offset, number << 32 | r.kind, addend)
            for offset, piece in section.pieces
            for r in piece.relocations
            for number, addend in [table.reference(r)]
        )
        if data:
            target = 1 + sections.index(section)
            moves.append(Section(f".rela{section.name}", RELA, INFO_LINK, 8, ".symtab", target, 24))
            moves[-1].append(data)
    stack = Section(".note.GNU-stack", PROGBITS, 0)  # the stack need not be executable
    parts = written(program, [*sections, *others, *moves, *table.sections(), stack])
    return b"".join(parts)


class _SymbolTable:
    """The numbers of symbols in an object, local ones first."""

    def __init__(
        self,
        program: Program,
        sections: list[Section],
        offsets: dict[Piece, int],
        anchors: dict[Piece, tuple[Symbol, int]],
        unique: bool,
    ) -> None:
        self._offsets, self._anchors, self._unique = offsets, anchors, unique
        self._sections = {p: i for i, s in enumerate(sections, 1) for _, p in s.pieces}
        self._wholes = [Symbol(b"", SECTION_SYMBOL, True) for _ in sections]
        symbols = [s for s in program.symbols if s.type != SECTION_SYMBOL and s.name]
        named = [s for s in symbols if s.is_local and (unique or not s.name.startswith(_TEMPORARY))]
        self._locals = [*self._wholes, *named]
        self._globals = [s for s in symbols if not s.is_local]
        self._numbers = {s: i for i, s in enumerate((*self._locals, *self._globals), 1)}

    def reference(self, relocation: Relocation) -> tuple[int, int]:
        """(number of the symbol, addend) of a relocation."""
        symbol, addend = relocation.symbol.real, relocation.addend
        if symbol in self._numbers:
            return self._numbers[symbol], addend
        assert symbol.piece is not None
        addend += symbol.value
        if symbol.piece in self._anchors:
            anchor, offset = self._anchors[symbol.piece]
            return self._numbers[anchor], addend + offset
        whole = self._wholes[self._sections[symbol.piece] - 1]
        return self._numbers[whole], addend + self._offsets[symbol.piece]

    def sections(self) -> list[Section]:
        """The table and its names."""
        strings, table = Strings(), Section(".symtab", SYMTAB, 0, 8, ".strtab", 1, 24)
        table.append(bytes(24))
        names = _unique(self._locals, self._globals) if self._unique else {}
        for symbol in (*self._locals, *self._globals):
            name = strings.add(names.get(symbol, symbol.name))
            binding = 0 if symbol.is_local else GLOBAL
            other = 2 if symbol.is_hidden else 0
            number, value = 0, 0
            if symbol in self._wholes:
                number = 1 + self._wholes.index(symbol)
            elif symbol.piece is not None:
                number = self._sections.get(symbol.piece, 1)
                value = self._offsets[symbol.piece] + symbol.value
            row = (name, binding << 4 | symbol.type, other, number, value, symbol.size)
            table.append(SYMBOL.pack(*row))
            table.info += symbol.is_local
        names_of = Section(".strtab", STRTAB, 0)
        names_of.append(bytes(strings.data))
        return [table, names_of]


def _unique(symbols: Sequence[Symbol], others: Sequence[Symbol]) -> dict[Symbol, bytes]:
    """The names of local symbols; those whose names are taken get a numeric suffix."""
    counts = {symbol.name: 1 for symbol in others}
    found = {}
    for symbol in symbols:
        name = symbol.name
        while name and name in counts:
            name = b"%s.%d" % (symbol.name, counts[symbol.name])
            counts[symbol.name] += 1
        counts[name] = 1
        found[symbol] = name
    return found
