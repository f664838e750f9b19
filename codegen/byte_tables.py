"""Loads from a table of 16 or 256 bytes at a vector of bytes: permutations in registers instead of one load per lane.

    vpermi2b    with VBMI: two of them look 64 bytes up in halves of the table, the sign of the index picks the half;
                4 instructions for 64 bytes
    vpshufb     elsewhere: 16 of them look 32 bytes up in rows of 16; an index of another row is moved above 127 by an
                addition that saturates, and gives 0; 64 instructions for 32 bytes

A table of 16 bytes is one row, and takes one of either. On other targets such a load is a gather.
"""

from __future__ import annotations

from ..base.dtypes import S64, U8
from ..tensor_ir.nodes import Cast, Load
from .capabilities import Capabilities
from .instruction_stream import InstructionStream
from .llvm_types import constant, lane_numbers, type_of

ENTRIES = 256
ROW = 16
_BEYOND = 0x70  # added to an index of 16 or more, it sets the highest bit


def table_index(e: Load) -> Cast | None:
    """The vector of bytes at which a load reads a table of bytes; None if it is another load."""
    index = e.indices[-1] if e.indices else None
    is_table = e.buffer.shape in ((ENTRIES,), (ROW,)) and e.buffer.dtype.bits == 8
    if not is_table or not isinstance(index, Cast) or index.lanes == 1 or index.dtype != S64:
        return None
    return index if index.operand.dtype == U8 else None


class ByteTables:
    """Emits such loads into one function."""

    def __init__(self, stream: InstructionStream, can: Capabilities) -> None:
        self._stream = stream
        self._lookups = can.lookups
        self.lanes = max(can.lookups, default=0)
        """Bytes that are looked up at once; 0 where the target has no such permutation."""

    def lookup(self, pointer: str, index: str, lanes: int, entries: int) -> str:
        """The bytes of the table of `entries` at `pointer` for each of the `lanes` bytes of `index`."""
        parts = []
        for start in range(0, lanes, self.lanes):
            part = self._resized(index, lanes, start, self.lanes)
            make = self._permuted if self.lanes == 64 else self._shuffled
            parts.append(make(pointer, part, entries))
        result, width = parts[0], self.lanes
        for part in parts[1:]:
            result = self._joined(result, part, width)
            width += self.lanes
        return self._resized(result, width, 0, lanes)

    def _permuted(self, pointer: str, index: str, entries: int) -> str:
        kind = type_of(U8, 64)
        if entries == ROW:
            row = self._resized(self._load(pointer, 0, ROW), ROW, 0, 64)
            return self._stream.intrinsic(
                self._lookups[64], kind, (kind, row), (kind, index), (kind, row)
            )
        quarters = [self._load(pointer, 64 * i, 64) for i in range(4)]
        low, high = (
            self._stream.intrinsic(self._lookups[64], kind, (kind, a), (kind, index), (kind, b))
            for a, b in (quarters[:2], quarters[2:])
        )
        is_high = self._stream.value(f"icmp slt {kind} {index}, zeroinitializer")
        return self._stream.value(f"select <64 x i1> {is_high}, {kind} {high}, {kind} {low}")

    def _shuffled(self, pointer: str, index: str, entries: int) -> str:
        kind, result = type_of(U8, 32), ""
        for row in range(entries // ROW):
            here = self._load(pointer, row * ROW, ROW)
            twice = lane_numbers([*range(ROW)] * 2)
            source = type_of(U8, ROW)
            both = self._stream.value(f"shufflevector {source} {here}, {source} poison, {twice}")
            other = self._stream.value(f"xor {kind} {index}, {constant(row * ROW, U8, 32)}")
            limited = self._stream.intrinsic(
                "llvm.uadd.sat.v32i8", kind, (kind, other), (kind, constant(_BEYOND, U8, 32))
            )
            part = self._stream.intrinsic(self._lookups[32], kind, (kind, both), (kind, limited))
            result = self._stream.value(f"or {kind} {result}, {part}") if result else part
        return result

    def _load(self, pointer: str, offset: int, size: int) -> str:
        at = self._stream.value(f"getelementptr i8, ptr {pointer}, i64 {offset}")
        return self._stream.value(f"load {type_of(U8, size)}, ptr {at}, align 1")

    def _resized(self, value: str, lanes: int, start: int, wanted: int) -> str:
        """`wanted` lanes from `start` on; any value in those there are not."""
        if lanes == wanted:
            return value
        numbers = [i if i < lanes else -1 for i in range(start, start + wanted)]
        kind = type_of(U8, lanes)
        return self._stream.value(
            f"shufflevector {kind} {value}, {kind} poison, {lane_numbers(numbers)}"
        )

    def _joined(self, a: str, b: str, width: int) -> str:
        """`width` lanes and as many as one lookup has."""
        more = self._resized(b, self.lanes, 0, width)
        kind = type_of(U8, width)
        numbers = lane_numbers([*range(width), *range(width, width + self.lanes)])
        return self._stream.value(f"shufflevector {kind} {a}, {kind} {more}, {numbers}")
