"""Locals that are values of LLVM: they have no memory, and a phi where control flow joins.

before   acc = alloca; store 0, acc;   k: old = load acc; new = fma(a, b, old); store new, acc
after    k: old = phi [ 0, %entry ], [ new, %k ]; new = fma(a, b, old)

A local is one if all accesses have equally many lanes and a number as their index, a multiple of these. LLVM would find
the same values, from a text that is twice as long.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..tensor_ir.intrinsics import CHAINS
from ..tensor_ir.nodes import (
    Allocate,
    Block,
    Broadcast,
    Buffer,
    Call,
    Const,
    Expr,
    For,
    If,
    Load,
    Slice,
    Stmt,
    Store,
    While,
)
from ..tensor_ir.visitor import walk, walk_statements
from .instruction_stream import InstructionStream
from .llvm_types import lane_numbers, type_of

MAX_REGISTERS = 32 * 64
"""Bytes of the vector registers of the widest ISA."""

Slot = tuple[str, int]
"""The name of a local, and the first of the elements that are one value."""


def may_be_registers(buffer: Buffer) -> bool:
    """Return whether LLVM may keep a buffer in registers: a local that is no larger than all of them."""
    return buffer.storage == "local" and buffer.elements * buffer.dtype.size <= MAX_REGISTERS


class LocalValues:
    """The values of the locals of one function, whose body is given, at the point that is emitted.

    `makes_constants`: whether it needs vectors of constants other than zero. `max_carried`: the largest number of
    vectors that a loop has carried so far.
    """

    def __init__(self, stream: InstructionStream, body: Stmt) -> None:
        self._stream = stream
        self._lanes, self.makes_constants = _values_of(body)
        self._kinds: dict[str, str] = {}
        self._values: dict[Slot, str] = {}
        self._stored: dict[int, frozenset[Slot]] = {}
        self.max_carried = 0
        if self._lanes:
            self._note_stores(body)

    def allocate(self, buffer: Buffer) -> bool:
        """Begin a local; return whether it is one of values."""
        lanes = self._lanes.get(buffer.name)
        if lanes is None:
            return False
        self._kinds[buffer.name] = type_of(buffer.dtype, lanes)
        for first in range(0, buffer.elements, lanes):
            self._values[buffer.name, first] = "poison"
        return True

    def load(self, e: Load) -> str | None:
        """Return the value of a load, zero behind its active lanes; None for other buffers."""
        if e.buffer.name not in self._lanes:
            return None
        value, kind = self._values[_slot(e.buffer, e.indices)], self._kinds[e.buffer.name]
        if e.active is None or e.active == e.lanes:
            return value
        kept = lane_numbers([i if i < e.active else e.lanes for i in range(e.lanes)])
        return self._stream.value(f"shufflevector {kind} {value}, {kind} zeroinitializer, {kept}")

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], value: str) -> bool:
        """Replace a value; return whether the buffer is one of values."""
        if buffer.name not in self._lanes:
            return False
        self._values[_slot(buffer, indices)] = value
        return True

    def loop(self, s: For | While) -> Carried:
        """Return the values that a loop carries, in its first block, which has begun."""
        slots = self._changed(s)
        vectors = sum(self._lanes[name] > 1 for name, _ in slots)
        self.max_carried = max(self.max_carried, vectors)
        return Carried(self, slots)

    def branch(self, s: If, before: str) -> Joined:
        """Return what joins the values of the arms of a branch at the end of block `before`."""
        joined = Joined(self, self._changed(s))
        if s.otherwise is None:
            joined.end_arm(before)
        return joined

    def phi(self, slot: Slot, name: str, *sides: tuple[str, str]) -> str:
        """Return the instruction that picks the value by (value, block before)."""
        shown = ", ".join(f"[ {value}, %{label} ]" for value, label in sides)
        return f"{name} = phi {self._kinds[slot[0]]} {shown}"

    def _changed(self, s: For | While | If) -> list[Slot]:
        """Return the slots that a loop or branch stores to, the last first."""
        stored = sorted(self._stored.get(id(s), ()), reverse=True)
        return [slot for slot in stored if slot in self._values]

    def _note_stores(self, s: Stmt) -> frozenset[Slot]:
        """Note what is stored to inside of each loop and branch."""
        if isinstance(s, Store):
            return frozenset((_slot(s.buffer, s.indices),) if s.buffer.name in self._lanes else ())
        if not isinstance(s, Block | For | If | While):
            return frozenset()
        inside = s.body if isinstance(s, Block) else _bodies(s)
        found = frozenset().union(*[self._note_stores(one) for one in inside])
        if not isinstance(s, Block):
            self._stored[id(s)] = found
            return found
        # Another block may have a local of the same name: what is stored to ends with the block that allocates it.
        own = {one.buffer.name for one in s.body if isinstance(one, Allocate)}
        return frozenset(slot for slot in found if slot[0] not in own) if own else found


class Carried:
    """The values that a loop stores to: before it, in its first block (`phi`s), and at its end."""

    def __init__(self, locals_: LocalValues, slots: list[Slot]) -> None:
        self._locals, self._stream, values = locals_, locals_._stream, locals_._values
        self._before = {slot: values[slot] for slot in slots}
        self._head = {slot: self._stream.fresh_here() for slot in slots}
        self._last: dict[Slot, str] = {}
        values.update(self._head)

    def close(self, block: list[str], before: str) -> None:
        """Add the phis to the lines of the first block, which follows `before` and the block that is open.

        They stand before other phis, the last local first, as LLVM's own pass writes them: its register allocator
        spills by this order. Packed weights of 5 and 6 bits with 20 sums take 1.07 of the time in another.
        """
        values, label = self._locals._values, self._stream.label
        self._last = {slot: values[slot] for slot in self._head}
        block[1:1] = [
            "  " + self._locals.phi(slot, name, (self._before[slot], before), (values[slot], label))
            for slot, name in self._head.items()
        ]

    def leave_head(self) -> None:
        """Begin what follows a loop that is left from its first block."""
        self._continue(self._head)

    def leave(self, last: str, skipped: str) -> None:
        """Begin what follows a loop that is left from its last block, or `skipped` from a block before ("": never)."""
        if not skipped:
            self._continue(self._last)
            return
        for slot, value in self._last.items():
            name = self._stream.fresh_here()
            sides = (self._before[slot], skipped), (value, last)
            self._stream.emit(self._locals.phi(slot, name, *sides))
            self._locals._values[slot] = name

    def _continue(self, values: dict[Slot, str]) -> None:
        self._locals._values.update(values)
        for value in values.values():
            if value.startswith("%"):
                self._stream.reveal(value)


class Joined:
    """The values that the arms of a branch store to."""

    def __init__(self, locals_: LocalValues, slots: list[Slot]) -> None:
        self._locals, self._slots = locals_, slots
        self._before = {slot: locals_._values[slot] for slot in slots}
        self._sides: list[tuple[str, dict[Slot, str]]] = []

    def end_arm(self, last: str) -> None:
        """End an arm, whose last block is given; the values are again those before the branch."""
        values = self._locals._values
        self._sides.append((last, {slot: values[slot] for slot in self._slots}))
        values.update(self._before)

    def join(self) -> None:
        """Begin what follows the arms."""
        for slot in self._slots:
            sides = [(values[slot], label) for label, values in self._sides]
            name = self._locals._stream.fresh_here()
            self._locals._stream.emit(self._locals.phi(slot, name, *sides))
            self._locals._values[slot] = name


def _slot(buffer: Buffer, indices: tuple[Expr, ...]) -> Slot:
    (index,) = indices
    assert isinstance(index, Const)
    return buffer.name, int(index.value)


def _bodies(s: For | If | While) -> Iterator[Stmt]:
    if not isinstance(s, If):
        yield s.body
        return
    yield s.then
    if s.otherwise is not None:
        yield s.otherwise


def _values_of(body: Stmt) -> tuple[dict[str, int], bool]:
    """Return (lanes of each local that is values, whether there are vectors of constants other than zero)."""
    found: dict[str, int] = {}
    for s in walk_statements(body):
        if isinstance(s, Allocate) and may_be_registers(s.buffer):
            found[s.buffer.name] = 0
    makes_constants = False
    for node in walk(body):
        if isinstance(node, Load | Store | Slice):
            name = node.buffer.name
            if name not in found:
                continue
            lanes = _lanes(node)
            if not lanes or found[name] not in (0, lanes) or node.buffer.elements % lanes:
                del found[name]
            else:
                found[name] = lanes
        elif isinstance(node, Broadcast):
            makes_constants |= isinstance(node.operand, Const) and node.operand.value != 0
        elif isinstance(node, Call):
            makes_constants |= node.name in CHAINS
    return {name: lanes for name, lanes in found.items() if lanes}, makes_constants


def _lanes(access: Load | Store | Slice) -> int:
    """Return the lanes of an access to a value; 0 if its elements are not known, or not whole values."""
    if isinstance(access, Slice) or len(access.indices) != 1:
        return 0
    lanes = access.lanes if isinstance(access, Load) else access.value.lanes
    (index,) = access.indices
    is_part = isinstance(access, Store) and access.active not in (None, lanes)
    if is_part or not isinstance(index, Const) or index.value % lanes:
        return 0
    if not 0 <= index.value < access.buffer.elements:
        return 0  # code that never runs, which a branch may hold
    return lanes
