"""Loads and stores at an address: whole vectors, their first `active` elements, and one address per lane.

Nothing beyond the active elements is accessed: with masks where the target has them, else a partial vector is moved in
pieces of power-of-two sizes.
"""

from __future__ import annotations

from ..base.dtypes import BOOL, U8, DType
from .capabilities import Capabilities
from .instruction_stream import InstructionStream
from .llvm_types import (
    constant,
    lane_mask,
    lane_numbers,
    mangled,
    memory_type,
    type_of,
    vector_of,
)


class MemoryAccess:
    """Emits the memory instructions of one function."""

    def __init__(self, stream: InstructionStream, can: Capabilities) -> None:
        self._stream = stream
        self._can = can

    def load(self, pointer: str, dtype: DType, lanes: int, active: int, local: bool) -> str:
        """The first `active` of `lanes` elements from `pointer` on, the others zero."""
        return self._from_memory(self._load(pointer, dtype, lanes, active, local), dtype, lanes)

    def _load(self, pointer: str, dtype: DType, lanes: int, active: int, local: bool) -> str:
        most = self._can.vector_bits // dtype.bits if local and dtype.bits >= 8 else active
        if active == lanes <= most:
            return self._plain_load(pointer, dtype, lanes)
        # A mask would keep LLVM from turning a local into registers.
        masked = self._can.masks or dtype.bits in self._can.masked_loads
        if masked and not local:
            return self._masked_load(pointer, dtype, lanes, active)
        value = constant(0, _in_memory(dtype), lanes)
        for offset, size in _pieces(active, most):
            part = self._plain_load(self._at(pointer, dtype, offset), dtype, size)
            value = self._insert(value, part, dtype, lanes, offset, size)
        return value

    def load_number(self, pointer: str, element: DType, dtype: DType) -> str:
        """Load a number of `dtype` at `pointer`, which is aligned to an `element`."""
        return self._stream.result(f"load {type_of(dtype, 1)}, ptr {pointer}, align {element.size}")

    def load_strided(
        self, pointer: str, dtype: DType, lanes: int, active: int, stride: int, local: bool
    ) -> str:
        """The first `active` elements that lie `stride` apart, the others zero, picked out of whole vectors.

        The last vector ends with the last element, so that nothing behind it is read.
        """
        span = (active - 1) * stride + 1
        starts = [min(at, max(span - lanes, 0)) for at in range(0, span, lanes)]
        kind = self._memory_vector(dtype, lanes)
        result = ""
        for number, start in enumerate(starts):
            at = self._at(pointer, dtype, start)
            part = self._load(at, dtype, lanes, min(span, lanes), local)
            here = [lane * stride - start for lane in range(active)]
            done = [lane * stride < starts[number - 1] + lanes for lane in range(active)]
            picked = [
                lane if number and done[lane] else lanes + here[lane] for lane in range(active)
            ]
            inside = [x if x < 2 * lanes else -1 for x in picked]
            numbers = lane_numbers(inside + [-1] * (lanes - active))
            result = self._stream.value(
                f"shufflevector {kind} {result or 'poison'}, {kind} {part}, {numbers}"
            )
        if active < lanes:
            kept = [lane if lane < active else lanes for lane in range(lanes)]
            numbers = lane_numbers(kept)
            result = self._stream.value(
                f"shufflevector {kind} {result}, {kind} zeroinitializer, {numbers}"
            )
        return self._from_memory(result, dtype, lanes)

    def store(
        self, pointer: str, value: str, dtype: DType, lanes: int, active: int, local: bool
    ) -> None:
        """Write the first `active` of `lanes` elements from `pointer` on."""
        value = self._to_memory(value, dtype, lanes)
        if active == lanes:
            self._plain_store(pointer, value, dtype, lanes)
        # Of a narrowed vector, LLVM stores an only active element as wide as it was before, over what lies behind it.
        elif self._can.masks and not local and active > 1:
            self._masked_store(pointer, value, dtype, lanes, active)
        else:
            for offset, size in _pieces(active):
                part = self._extract(value, dtype, lanes, offset, size)
                self._plain_store(self._at(pointer, dtype, offset), part, dtype, size)

    def gather(self, pointers: str, dtype: DType, lanes: int, active: int) -> str:
        """The elements at a vector of pointers, zero from lane `active` on. LLVM splits it where that is faster."""
        kind = self._memory_vector(dtype, lanes)
        suffix = f"{mangled(_in_memory(dtype), lanes)}.v{lanes}p0"
        value = self._call(
            f"llvm.masked.gather.{suffix}",
            kind,
            (f"<{lanes} x ptr>", pointers),
            ("i32", str(dtype.size)),
            (f"<{lanes} x i1>", lane_mask(lanes, active)),
            (kind, "zeroinitializer"),
        )
        return self._from_memory(value, dtype, lanes)

    def scatter(self, pointers: str, value: str, dtype: DType, lanes: int, active: int) -> None:
        """Write the first `active` elements to a vector of pointers, in order of the lanes."""
        kind = self._memory_vector(dtype, lanes)
        suffix = f"{mangled(_in_memory(dtype), lanes)}.v{lanes}p0"
        self._call(
            f"llvm.masked.scatter.{suffix}",
            "void",
            (kind, self._to_memory(value, dtype, lanes)),
            (f"<{lanes} x ptr>", pointers),
            ("i32", str(dtype.size)),
            (f"<{lanes} x i1>", lane_mask(lanes, active)),
        )

    def _masked_load(self, pointer: str, dtype: DType, lanes: int, active: int) -> str:
        kind = self._memory_vector(dtype, lanes)
        return self._call(
            f"llvm.masked.load.{mangled(_in_memory(dtype), lanes)}.p0",
            kind,
            ("ptr", pointer),
            ("i32", str(dtype.size)),
            (f"<{lanes} x i1>", lane_mask(lanes, active)),
            (kind, "zeroinitializer"),
        )

    def _masked_store(
        self, pointer: str, value: str, dtype: DType, lanes: int, active: int
    ) -> None:
        self._call(
            f"llvm.masked.store.{mangled(_in_memory(dtype), lanes)}.p0",
            "void",
            (self._memory_vector(dtype, lanes), value),
            ("ptr", pointer),
            ("i32", str(dtype.size)),
            (f"<{lanes} x i1>", lane_mask(lanes, active)),
        )

    def _call(self, name: str, result: str, *args: tuple[str, str]) -> str:
        self._stream.declare(name, result, [kind for kind, _ in args])
        text = f"call {result} @{name}({', '.join(f'{kind} {value}' for kind, value in args)})"
        if result != "void":
            return self._stream.result(text)
        self._stream.emit(text)
        return ""

    def _plain_load(self, pointer: str, dtype: DType, lanes: int) -> str:
        kind = self._memory_vector(dtype, lanes)
        return self._stream.result(f"load {kind}, ptr {pointer}, align {dtype.size}")

    def _plain_store(self, pointer: str, value: str, dtype: DType, lanes: int) -> None:
        kind = self._memory_vector(dtype, lanes)
        self._stream.emit(f"store {kind} {value}, ptr {pointer}, align {dtype.size}")

    def _at(self, pointer: str, dtype: DType, offset: int) -> str:
        if offset == 0:
            return pointer
        return self._stream.value(
            f"getelementptr {memory_type(dtype)}, ptr {pointer}, i64 {offset}"
        )

    def _insert(
        self, value: str, part: str, dtype: DType, lanes: int, offset: int, size: int
    ) -> str:
        whole, piece = self._memory_vector(dtype, lanes), self._memory_vector(dtype, size)
        if size == 1:
            return self._stream.value(
                f"insertelement {whole} {value}, {piece} {part}, i64 {offset}"
            )
        widening = [lane - offset if 0 <= lane - offset < size else -1 for lane in range(lanes)]
        wide = self._stream.value(
            f"shufflevector {piece} {part}, {piece} poison, {lane_numbers(widening)}"
        )
        merging = [lane + lanes if number >= 0 else lane for lane, number in enumerate(widening)]
        return self._stream.value(
            f"shufflevector {whole} {value}, {whole} {wide}, {lane_numbers(merging)}"
        )

    def _extract(self, value: str, dtype: DType, lanes: int, offset: int, size: int) -> str:
        whole = self._memory_vector(dtype, lanes)
        if size == 1:
            return self._stream.value(f"extractelement {whole} {value}, i64 {offset}")
        numbers = lane_numbers(list(range(offset, offset + size)))
        return self._stream.value(f"shufflevector {whole} {value}, {whole} poison, {numbers}")

    def _from_memory(self, value: str, dtype: DType, lanes: int) -> str:
        if dtype != BOOL:
            return value
        kind = self._memory_vector(dtype, lanes)
        return self._stream.value(
            f"icmp ne {kind} {value}, zeroinitializer" if lanes > 1 else f"icmp ne i8 {value}, 0"
        )

    def _to_memory(self, value: str, dtype: DType, lanes: int) -> str:
        if dtype != BOOL:
            return value
        return self._stream.value(
            f"zext {type_of(dtype, lanes)} {value} to {self._memory_vector(dtype, lanes)}"
        )

    def _memory_vector(self, dtype: DType, lanes: int) -> str:
        return vector_of(memory_type(dtype), lanes)


def _in_memory(dtype: DType) -> DType:
    return U8 if dtype == BOOL else dtype


def _pieces(active: int, most: int = 1 << 16) -> list[tuple[int, int]]:
    """(offset, size) of the powers of two up to `most` that make up `active`, largest first: 7 is 4 + 2 + 1."""
    pieces, offset = [], 0
    while active:
        size = min(1 << active.bit_length() - 1, most)
        pieces.append((offset, size))
        offset, active = offset + size, active - size
    return pieces
