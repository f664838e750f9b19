"""Tensor IR expressions to LLVM instructions: one short method per kind of node, each returning an operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.dtypes import S64, DType
from ..tensor_ir.analysis import integer_literal
from ..tensor_ir.nodes import (
    Binary,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Load,
    Ramp,
    Select,
    Shuffle,
    Slice,
    Stmt,
    Store,
    Unary,
    Var,
)
from ..tensor_ir.sizes import elements_of
from .addresses import Addresses
from .bounds_checks import BoundsChecks
from .byte_tables import ByteTables, table_index
from .capabilities import Capabilities
from .casts import Casts
from .dot_products import DOT_PRODUCTS, DotProducts
from .instruction_stream import InstructionStream
from .integer_division import IntegerDivision
from .intrinsic_calls import IntrinsicCalls
from .lane_strides import MAX_STRIDE, lane_stride
from .llvm_types import constant, element_type, splat, type_of
from .local_values import LocalValues, may_be_registers
from .loop_counters import LoopCounters
from .memory_access import MemoryAccess
from .operators import Operators
from .quantization import Quantization


class Expressions:
    """Emits the expressions of one function, and stores.

    `names` maps a variable or buffer in scope to its operand; `locals` has those that are values, of the statements
    `body`; `natural` holds the variables known to be >= 0.
    """

    def __init__(
        self,
        stream: InstructionStream,
        can: Capabilities,
        body: Stmt,
        checks: BoundsChecks | None = None,
    ) -> None:
        self.names: dict[str, str] = {}
        self.locals = LocalValues(stream, body)
        self._checks = checks
        self.natural: set[str] = set()
        self._stream = stream
        self._seen: dict[int, str] = {}
        self._casts = Casts(stream, can)
        self._operators = Operators(stream, can)
        self._integers = IntegerDivision(stream)
        self._calls = IntrinsicCalls(stream, can, self._casts, self._operators)
        self._dots = DotProducts(stream, can, self._casts)
        self._quantization = Quantization(stream, can)
        self._memory = MemoryAccess(stream, can)
        self._tables = ByteTables(stream, can)
        self.counters = LoopCounters(stream, can.index_scales)
        self._addresses = Addresses(stream, self._operand, self.counters)
        self._emitters: dict[type, Callable[[Any], str]] = {
            Const: self._const,
            Var: self._var,
            Load: self._load,
            Unary: self._unary,
            Binary: self._binary,
            Compare: self._compare,
            Select: self._select,
            Cast: self._cast,
            Broadcast: self._broadcast,
            Ramp: self._ramp,
            Shuffle: self._shuffle,
            Call: self._call,
        }

    def value(self, e: Expr) -> str:
        """The operand of `e`; within one statement, a node that occurs twice is emitted once."""
        self._seen = {}
        return self._operand(e)

    def address(self, location: Slice) -> str:
        """The pointer that a slice stands for."""
        self._seen = {}
        return self._addresses.address(
            self.names[location.buffer.name], location.buffer, location.indices
        )

    def store(self, s: Store) -> None:
        """Write to memory."""
        self.write(s.buffer, s.indices, self.value(s.value), s.value.lanes, s.active)

    def write(
        self,
        buffer: Buffer,
        indices: tuple[Expr, ...],
        value: str,
        lanes: int,
        active: int | None = None,
    ) -> None:
        """Write the first `active` lanes of a value to memory, all if there is no number."""
        active = active or lanes
        if self._checks:
            self._check(self._checks, "writes", buffer, indices, lanes, active)
        if self.locals.store(buffer, indices, value):
            return
        if indices and indices[-1].lanes > 1:
            pointers = self._pointers(buffer, indices, lanes)
            self._memory.scatter(pointers, value, buffer.dtype, lanes, active)
            return
        pointer, local = self._pointer(buffer, indices), may_be_registers(buffer)
        self._memory.store(pointer, value, buffer.dtype, lanes, active, local)

    def is_natural(self, e: Expr) -> bool:
        """Return whether an s64 scalar is known to be >= 0, taking index arithmetic not to overflow."""
        if isinstance(e, Const):
            return e.value >= 0
        if isinstance(e, Var):
            return e.name in self.natural
        if isinstance(e, Binary) and e.op in ("add", "mul", "div", "mod", "min", "max"):
            return self.is_natural(e.left) and self.is_natural(e.right)
        return False

    def _operand(self, e: Expr) -> str:
        known = self._seen.get(id(e))
        if known is None:
            known = self._seen[id(e)] = self._emitters[type(e)](e)
        return known

    def _pointer(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        return self._addresses.address(self.names[buffer.name], buffer, indices)

    def _pointers(self, buffer: Buffer, indices: tuple[Expr, ...], lanes: int) -> str:
        base = self.names[buffer.name]
        return self._addresses.lane_addresses(base, buffer, indices, lanes)

    def _const(self, e: Const) -> str:
        return constant(e.value, e.dtype)

    def _var(self, e: Var) -> str:
        return self.names[e.name]

    def _load(self, e: Load) -> str:
        active = e.active or e.lanes
        if self._checks:
            self._check(self._checks, "reads", e.buffer, e.indices, e.lanes, active)
        if (known := self.locals.load(e)) is not None:
            return known
        if e.indices and e.indices[-1].lanes > 1:
            found = lane_stride(e.indices[-1])
            if found is not None and 1 < found[0] <= MAX_STRIDE:
                pointer = self._pointer(e.buffer, (*e.indices[:-1], found[1]))
                local = may_be_registers(e.buffer)
                return self._memory.load_strided(pointer, e.dtype, e.lanes, active, found[0], local)
            in_table = table_index(e)
            if in_table is not None and self._tables.lanes:
                index = self._operand(in_table.operand)
                table = self.names[e.buffer.name]
                return self._tables.lookup(table, index, e.lanes, e.buffer.elements)
            pointers = self._pointers(e.buffer, e.indices, e.lanes)
            return self._memory.gather(pointers, e.dtype, e.lanes, active)
        pointer = self._pointer(e.buffer, e.indices)
        return self._memory.load(pointer, e.dtype, e.lanes, active, may_be_registers(e.buffer))

    def _check(
        self,
        checks: BoundsChecks,
        verb: str,
        buffer: Buffer,
        indices: tuple[Expr, ...],
        lanes: int,
        active: int,
    ) -> None:
        """Leave the function unless the elements of an access are in the buffer, which has one axis or none."""
        size = elements_of(buffer.shape)
        limit = str(size) if isinstance(size, int) else self._operand(size)
        if not indices:
            checks.check(verb, buffer, "0", 1, limit)
        elif indices[-1].lanes > 1:
            numbers = self._operand(indices[-1])
            checks.check_lanes(verb, buffer, numbers, lanes, active, limit)
        else:
            checks.check(verb, buffer, self._operand(indices[-1]), active, limit)

    def _unary(self, e: Unary) -> str:
        value, dtype = self._computable(e.operand)
        result = self._operators.unary(e.op, value, dtype, e.lanes)
        return self._casts.cast(result, dtype, e.dtype, e.lanes)

    def _binary(self, e: Binary) -> str:
        if not e.dtype.is_float and e.op in ("div", "mod", "shl", "shr"):
            return self._integer_binary(e)
        left, dtype = self._computable(e.left)
        right, _ = self._computable(e.right)
        if dtype.is_float and e.op in ("min", "max"):
            result = self._float_extreme(e, left, right, dtype)
        else:
            result = self._operators.binary(e.op, left, right, dtype, e.lanes)
        return self._casts.cast(result, dtype, e.dtype, e.lanes)

    def _float_extreme(self, e: Binary, left: str, right: str, dtype: DType) -> str:
        """NaN must propagate: if one side is a literal, the cheap form does that already."""
        if _is_ordered_literal(e.left):
            return self._operators.extreme_of_ordered(e.op, left, right, dtype, e.lanes)
        if _is_ordered_literal(e.right):
            return self._operators.extreme_of_ordered(e.op, right, left, dtype, e.lanes)
        return self._operators.binary(e.op, left, right, dtype, e.lanes)

    def _integer_binary(self, e: Binary) -> str:
        left, literal = self._operand(e.left), integer_literal(e.right)
        if e.op in ("div", "mod"):
            right, natural = self._operand(e.right), e.lanes == 1 and self.is_natural(e.left)
            return self._integers.divide(
                e.op, left, right, e.dtype, e.lanes, literal, natural and e.dtype == S64
            )
        if literal is not None:
            return self._integers.shift_by_literal(e.op, left, literal, e.dtype, e.lanes)
        return self._integers.shift(e.op, left, self._operand(e.right), e.dtype, e.lanes)

    def _compare(self, e: Compare) -> str:
        left, dtype = self._computable(e.left)
        right, _ = self._computable(e.right)
        return self._operators.compare(e.op, left, right, dtype, e.lanes)

    def _select(self, e: Select) -> str:
        condition, then, otherwise = (
            self._operand(part) for part in (e.condition, e.then, e.otherwise)
        )
        return self._operators.select(condition, then, otherwise, e.dtype, e.lanes)

    def _cast(self, e: Cast) -> str:
        return self._casts.cast(self._operand(e.operand), e.operand.dtype, e.dtype, e.lanes)

    def _broadcast(self, e: Broadcast) -> str:
        if e.lanes == 1:
            return self._operand(e.operand)
        if isinstance(e.operand, Const):
            return constant(e.operand.value, e.dtype, e.lanes)
        value, element = self._operand(e.operand), element_type(e.dtype)
        vector = type_of(e.dtype, e.lanes)
        if not value.startswith("%"):
            return splat(element, value, e.lanes)
        first = self._stream.value(f"insertelement {vector} poison, {element} {value}, i64 0")
        return self._stream.value(
            f"shufflevector {vector} {first}, {vector} poison, <{e.lanes} x i32> zeroinitializer"
        )

    def _ramp(self, e: Ramp) -> str:
        base = self._broadcast(Broadcast(e.base, e.lanes))
        if e.lanes == 1:
            return base
        element = element_type(e.dtype)
        steps = ", ".join(f"{element} {constant(i, e.dtype)}" for i in range(e.lanes))
        return self._stream.value(f"add {type_of(e.dtype, e.lanes)} {base}, <{steps}>")

    def _shuffle(self, e: Shuffle) -> str:
        left, right = self._operand(e.left), self._operand(e.right)
        vector = type_of(e.dtype, e.left.lanes)
        lanes = ", ".join(f"i32 {i}" for i in e.pattern)
        pattern = f"<{e.lanes} x i32> <{lanes}>"
        return self._stream.value(f"shufflevector {vector} {left}, {vector} {right}, {pattern}")

    def _call(self, e: Call) -> str:
        lanes = e.args[0].lanes
        if e.name == "bitcast":
            return self._bitcast(e)
        if e.name in DOT_PRODUCTS:
            acc, a, b = map(self._operand, e.args)
            return self._dots.dot(e.name, acc, a, b, e.args[1].dtype, e.lanes)
        if e.name == "quantize":
            zero = integer_literal(e.args[1])
            assert zero is not None
            return self._quantization.quantize(self._operand(e.args[0]), zero, e.dtype, lanes)
        computed = [self._computable(arg) for arg in e.args]
        dtype = computed[0][1]
        result = self._calls.call(e.name, [value for value, _ in computed], dtype, lanes)
        return self._casts.cast(result, dtype, e.dtype, e.lanes)

    def _bitcast(self, e: Call) -> str:
        operand = e.args[0]
        if isinstance(operand, Load) and e.lanes == 1 and self._is_whole(operand):
            # AArch64's backend takes a vector of four bytes apart before it sees that they are one number.
            pointer = self._pointer(operand.buffer, operand.indices)
            return self._memory.load_number(pointer, operand.dtype, e.dtype)
        source, target = (type_of(x.dtype, x.lanes) for x in (operand, e))
        value = self._operand(operand)
        if source == target:  # LLVM has one integer for both signs, and for the 16-bit floats
            return value
        return self._stream.value(f"bitcast {source} {value} to {target}")

    def _is_whole(self, e: Load) -> bool:
        """Return whether a load takes several neighboring elements of memory, all of them and unchecked."""
        is_row = e.lanes > 1 and e.active is None and e.indices[-1].lanes == 1
        return is_row and self._checks is None and not may_be_registers(e.buffer)

    def _computable(self, e: Expr) -> tuple[str, DType]:
        """The operand in the type it is computed with: f32 for a 16-bit float."""
        wide = e.dtype.accumulator
        return self._casts.cast(self._operand(e), e.dtype, wide, e.lanes), wide


def _is_ordered_literal(e: Expr) -> bool:
    if isinstance(e, Broadcast):
        e = e.operand
    return isinstance(e, Const) and e.value == e.value
