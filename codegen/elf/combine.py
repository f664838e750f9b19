"""Combines objects: symbols that one uses and another defines, and the sections of the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from ...base.errors import InternalError
from ...base.records import dataclass
from ...targets.machine_code import MachineCode
from .object_file import ObjectFile, Piece, Symbol
from .records import PROGBITS


@dataclass(eq=False)
class Section:
    """A section of the result: pieces at offsets, or `data` that the writer makes."""

    name: str
    type: int = PROGBITS
    flags: int = 0
    alignment: int = 1
    link: str = ""
    info: int = 0
    entry: int = 0
    size: int = 0
    data: bytearray = field(default_factory=bytearray)
    pieces: list[tuple[int, Piece]] = field(default_factory=list)
    address: int = 0
    offset: int = 0

    def add(self, piece: Piece) -> int:
        """Append a piece; return its offset."""
        self.alignment = max(self.alignment, piece.alignment)
        offset = self.size + -self.size % piece.alignment
        self.pieces.append((offset, piece))
        self.size = offset + len(piece.data)
        return offset

    def append(self, data: bytes, alignment: int = 1) -> int:
        """Append bytes to `data`; return their offset."""
        self.alignment = max(self.alignment, alignment)
        self.data.extend(bytes(-len(self.data) % alignment) + data)
        self.size = len(self.data)
        return self.size - len(data)


@dataclass(frozen=True, eq=False)
class Program:
    """Objects combined: their pieces in order, and their symbols, of which global ones are defined once."""

    machine: MachineCode
    pieces: list[Piece]
    symbols: list[Symbol]

    @property
    def undefined(self) -> list[Symbol]:
        """The symbols that no object defines."""
        return [symbol for symbol in self.symbols if symbol.name and symbol.piece is None]


def combine(objects: Sequence[ObjectFile]) -> Program:
    """Combine objects of one machine. Raise InternalError if two define the same symbol."""
    machines = {one.machine.number for one in objects}
    if len(machines) > 1:
        raise InternalError("objects of different machines cannot be combined")
    known: dict[bytes, Symbol] = {}
    for symbol in _global(objects):
        other = known.get(symbol.name)
        if other is not None and other.piece is not None and symbol.piece is not None:
            raise InternalError(f"two objects define '{symbol.name.decode()}'")
        if other is None or symbol.piece is not None:
            known[symbol.name] = symbol
    for symbol in _global(objects):
        if known[symbol.name] is not symbol:
            symbol.definition = known[symbol.name]
    symbols = [s for one in objects for s in one.symbols if s.definition is None]
    return Program(objects[0].machine, [p for one in objects for p in one.pieces], symbols)


def _global(objects: Sequence[ObjectFile]) -> Iterable[Symbol]:
    return (s for one in objects for s in one.symbols if not s.is_local and s.name)
