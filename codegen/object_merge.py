"""Merges relocatable ELF objects into one with a single section: `ld -r` for the few kinds of sections LLVM makes
for kernels.

Code and constants are concatenated in `.text`, symbols and relocations move with them, and undefined symbols are
resolved to definitions in other objects. There is one section because code addresses its constants by 32-bit offsets,
while LLVM's loader maps every section separately: in a process that has mapped gigabytes they may be too far apart, and
LLVM then aborts the process. For the same reason functions of other libraries (`exp`) are called through addresses
beside the code: the loader would put a table of them elsewhere. Local symbols are renamed to be unique, as LLVM's
loader looks them up by name too. 64-bit little-endian ELF with explicit addends only.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import field, replace

from ..base.errors import InternalError
from ..base.records import dataclass

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

_PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOBITS = 1, 2, 3, 4, 8
_WRITE, _ALLOC, _EXECUTE, _GROUP_MEMBER, _INFO_LINK = 0x1, 0x2, 0x4, 0x200, 0x40
_UNWINDING = b".eh_frame"  # for exceptions, which are not used
_LOCAL, _SECTION_SYMBOL, _FILE_SYMBOL = 0, 3, 4
_UNDEFINED, _TEXT, _RESERVED = 0, 1, 0xFF00
_X86_64 = 62
_ADDRESS, _RELATIVE, _CALL = 1, 2, 4  # R_X86_64_64, R_X86_64_PC32, R_X86_64_PLT32
_TABLE_ENTRIES = (9, 41, 42)  # R_X86_64_GOTPCREL and its relaxable forms
_JUMP = struct.Struct("<Q2si2x")  # the address, then `jmp *address(%rip)`
_JUMP_AT, _JUMP_SIZE = 8, 6


@dataclass
class _Merged:
    """The one section of the result that is loaded."""

    alignment: int = 1
    data: bytearray = field(default_factory=bytearray)
    relocations: bytearray = field(default_factory=bytearray)


@dataclass(frozen=True)
class _Symbol:
    name: bytes
    info: int
    other: int
    section: int  # number in the result
    value: int
    size: int


def merge_objects(
    objects: Sequence[bytes], names: Sequence[tuple[str, str] | None] | None = None
) -> bytes:
    """Merge `objects`, in order, into one object. InternalError if one is not a relocatable ELF object.

    `names`: by object, (old, new): symbols that begin with `old` begin with `new` in the result.
    """
    merger = _Merger()
    for code, name in zip(objects, names or [None] * len(objects), strict=True):
        merger.add(_Object(code, name))
    return merger.object(objects[0])


class _Object:
    """The sections and symbols of one input."""

    def __init__(self, code: bytes, name: tuple[str, str] | None = None) -> None:
        if len(code) < 64 or code[:6] != b"\x7fELF\x02\x01" or code[16] != 1:
            raise InternalError(f"object code of {len(code)} bytes is not a relocatable 64-bit ELF")
        self.code = code
        self._old, self._new = (text.encode() for text in name or ("", ""))
        header = _HEADER.unpack_from(code)
        offset, count, names = header[6], header[12], header[13]
        self.sections = [_SECTION.unpack_from(code, offset + 64 * i) for i in range(count)]
        self._names = self.sections[names]
        self.table = next(i for i, s in enumerate(self.sections) if s[1] == _SYMTAB)

    def data(self, section: Sequence[int]) -> bytes:
        return self.code[section[4] : section[4] + section[5]]

    def name(self, section: Sequence[int]) -> bytes:
        return _text(self.data(self._names), section[0])

    def symbols(self) -> list[tuple[bytes, tuple[int, ...]]]:
        table = self.sections[self.table]
        strings = self.data(self.sections[table[6]])
        return [
            (self._renamed(_text(strings, s[0])), s) for s in _SYMBOL.iter_unpack(self.data(table))
        ]

    def _renamed(self, symbol: bytes) -> bytes:
        is_old = self._old and symbol.startswith(self._old)
        return self._new + symbol[len(self._old) :] if is_old else symbol


class _Merger:
    """Collects objects; `object` writes the result."""

    def __init__(self) -> None:
        self._section = _Merged()
        self._locals: list[_Symbol] = []
        self._globals: dict[bytes, _Symbol] = {}
        # (section, its relocations as (offset, type, symbol, addend)): symbols are numbered when all are known.
        self._relocations: list[tuple[_Merged, list[tuple[int, int, _Symbol | bytes, int]]]] = []

    def add(self, found: _Object) -> None:
        """Add one object."""
        merged_sections = self._add_sections(found)
        symbols = self._add_symbols(found, merged_sections)
        for section in found.sections:
            if section[1] == _RELA and section[7] in merged_sections:
                target, begin = merged_sections[section[7]]
                moved = []
                for offset, info, addend in _RELOCATION.iter_unpack(found.data(section)):
                    symbol, base = symbols[info >> 32]
                    moved.append((offset + begin, info & 0xFFFFFFFF, symbol, addend + base))
                self._relocations.append((target, moved))

    def _add_sections(self, found: _Object) -> dict[int, tuple[_Merged, int]]:
        """Section number in the object -> (section of the result, offset in it); only loaded sections."""
        merged_sections = {}
        for number, section in enumerate(found.sections):
            _, kind, flags, _, _, size, _, _, alignment, _ = section
            if not flags & _ALLOC or not size or found.name(section) == _UNWINDING:
                continue
            if kind != _PROGBITS or flags & (_WRITE | _GROUP_MEMBER):
                name = found.name(section).decode()
                raise InternalError(f"section '{name}' of an object cannot be merged")
            merged = self._section
            merged.alignment = max(merged.alignment, alignment)
            merged.data.extend(bytes(-len(merged.data) % max(alignment, 1)))
            merged_sections[number] = (merged, len(merged.data))
            merged.data.extend(found.data(section))
        return merged_sections

    def _add_symbols(
        self, found: _Object, merged_sections: dict[int, tuple[_Merged, int]]
    ) -> list[tuple[_Symbol | bytes, int]]:
        """Return the replacement of each symbol of the object (global ones by name), and the value to add
        to addends."""
        result: list[tuple[_Symbol | bytes, int]] = []
        for name, (_, info, other, index, value, size) in found.symbols():
            merged, begin = merged_sections.get(index, (None, 0))
            if index >= _RESERVED or (index and merged is None):
                merged_number = 0  # the file's name, or an empty section: never referenced
            else:
                merged_number = _TEXT if merged else _UNDEFINED
            symbol = _Symbol(name, info, other, merged_number, value + begin, size)
            if info & 15 == _SECTION_SYMBOL and merged:
                whole = _Symbol(b"", info, other, merged_number, 0, 0)
                if whole not in self._locals:
                    self._locals.append(whole)
                result.append((whole, begin))
            elif info >> 4 == _LOCAL:
                if merged:
                    self._locals.append(symbol)
                result.append((symbol, 0))
            else:
                self._define(symbol)
                result.append((name, 0))
        return result

    def _define(self, symbol: _Symbol) -> None:
        known = self._globals.get(symbol.name)
        if known and known.section and symbol.section:
            raise InternalError(f"two objects define '{symbol.name.decode()}'")
        if known is None or symbol.section:
            self._globals[symbol.name] = symbol

    def object(self, like: bytes) -> bytes:
        """The merged object, with the header of `like`."""
        if _HEADER.unpack_from(like)[2] == _X86_64:
            self._reach_externals()
        symbols = [_Symbol(b"", 0, 0, 0, 0, 0), *self._locals]
        numbers: dict[_Symbol | bytes, int] = {s: i for i, s in enumerate(symbols)}
        first_global = len(symbols)
        for symbol in self._globals.values():
            numbers[symbol.name] = len(symbols)
            symbols.append(symbol)
        for target, moved in self._relocations:
            for offset, kind, reference, addend in moved:
                info = numbers[reference] << 32 | kind
                target.relocations.extend(_RELOCATION.pack(offset, info, addend))
        named = _renamed(symbols[:first_global], set(self._globals)) + symbols[first_global:]
        return _written(like, self._section, named, first_global)

    def _reach_externals(self) -> None:
        """Redirect calls of functions in other libraries, and loads of their addresses, to an address kept in `.text`.

        Hidden symbols are defined by another object of the program and stay as they are.
        """
        text, whole = self._section, _Symbol(b"", _SECTION_SYMBOL, 0, _TEXT, 0, 0)
        entries: dict[bytes, int] = {}
        for _, moved in self._relocations:
            for i, (offset, kind, reference, addend) in enumerate(moved):
                if not isinstance(reference, bytes) or kind not in (_CALL, *_TABLE_ENTRIES):
                    continue
                symbol = self._globals[reference]
                if symbol.section != _UNDEFINED or symbol.other & 3:
                    continue
                if reference not in entries:
                    text.data.extend(bytes(-len(text.data) % 8))
                    entries[reference] = len(text.data)
                    text.data.extend(_JUMP.pack(0, b"\xff\x25", -_JUMP_AT - _JUMP_SIZE))
                at = entries[reference] + (_JUMP_AT if kind == _CALL else 0)
                moved[i] = (offset, _RELATIVE, whole, at + addend)
        if entries:
            text.alignment = max(text.alignment, 8)
            self._relocations.append(
                (text, [(at, _ADDRESS, name, 0) for name, at in entries.items()])
            )
            if whole not in self._locals:
                self._locals.append(whole)


def _renamed(symbols: Sequence[_Symbol], taken: set[bytes]) -> list[_Symbol]:
    """The local symbols; those whose names are taken get a numeric suffix."""
    result, counts = [], dict.fromkeys(taken, 1)
    for symbol in symbols:
        name = symbol.name
        while name and name in counts:
            name = b"%s.%d" % (symbol.name, counts[symbol.name])
            counts[symbol.name] += 1
        counts[name] = 1
        result.append(replace(symbol, name=name))
    return result


def _written(like: bytes, text: _Merged, symbols: Sequence[_Symbol], first_global: int) -> bytes:
    strings = _Strings()
    table = b"".join(
        _SYMBOL.pack(strings.add(s.name), s.info, s.other, s.section, s.value, s.size)
        for s in symbols
    )
    body, rows = bytearray(64), [bytes(64)]

    def put(
        name: bytes,
        kind: int,
        flags: int,
        data: bytes,
        link: int,
        info: int,
        alignment: int,
        entry: int,
    ) -> None:
        body.extend(bytes(-len(body) % max(alignment, 1)))
        header = (
            strings.add(name),
            kind,
            flags,
            0,
            len(body),
            len(data),
            link,
            info,
            alignment,
            entry,
        )
        rows.append(_SECTION.pack(*header))
        body.extend(data)

    table_number = 3 if text.relocations else 2
    put(b".text", _PROGBITS, _ALLOC | _EXECUTE, bytes(text.data), 0, 0, text.alignment, 0)
    if text.relocations:
        moves = bytes(text.relocations)
        put(b".rela.text", _RELA, _INFO_LINK, moves, table_number, _TEXT, 8, _RELOCATION.size)
    put(b".symtab", _SYMTAB, 0, table, table_number + 2, first_global, 8, _SYMBOL.size)
    put(b".note.GNU-stack", _PROGBITS, 0, b"", 0, 0, 1, 0)  # the stack need not be executable
    strings.add(b".strtab")
    put(b".strtab", _STRTAB, 0, bytes(strings.data), 0, 0, 1, 0)
    body.extend(bytes(-len(body) % 8))
    header = list(_HEADER.unpack_from(like))
    header[6], header[12], header[13] = len(body), len(rows), len(rows) - 1
    body[:64] = _HEADER.pack(*header)
    return bytes(body) + b"".join(rows)


class _Strings:
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


def _text(strings: bytes, start: int) -> bytes:
    return strings[start : strings.index(b"\0", start)]
