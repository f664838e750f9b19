"""The address of a buffer's element, built so that loops recompute as little of it as possible.

An index is split into a sum of multiples and a constant. Each scope's terms are added to the pointer in the block where
they become known, outermost first; the constant comes last, where it becomes the instruction's displacement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from ..base.dtypes import S64
from ..base.records import dataclass
from ..tensor_ir.nodes import Binary, Buffer, Const, Expr
from .instruction_stream import InstructionStream
from .llvm_types import memory_type
from .loop_counters import LoopCounters


@dataclass
class _Sum:
    """constant + the sum of multiples of operands."""

    constant: int = 0
    terms: dict[str, int] = field(default_factory=dict)


class Addresses:
    """Emits addresses into one function; `operand` emits an expression and returns its operand."""

    def __init__(
        self, stream: InstructionStream, operand: Callable[[Expr], str], counters: LoopCounters
    ) -> None:
        self._stream = stream
        self._operand = operand
        self._counters = counters

    def address(self, base: str, buffer: Buffer, indices: Sequence[Expr]) -> str:
        """The pointer to the element at scalar `indices` of a buffer that starts at `base`."""
        total, stride = _Sum(), 1
        for index, extent in zip(reversed(indices), reversed(buffer.shape), strict=True):
            self._add(total, index, stride)
            stride *= extent if isinstance(extent, int) else 1  # only of 1-D buffers
        kind, pointer = memory_type(buffer.dtype), base
        steps = total.terms.pop(self._counters.variable, 0)
        for offset in self._by_scope(total):
            pointer = self._stream.value(
                f"getelementptr {kind}, ptr {pointer}, i64 {offset}", pointer, offset
            )
        if steps:
            size = buffer.dtype.size
            scale, counter = self._counters.scaled(steps * size, size)
            pointer = self._stream.value(
                f"getelementptr [{scale} x i8], ptr {pointer}, i64 {counter}"
            )
        if total.constant:
            pointer = self._stream.value(
                f"getelementptr {kind}, ptr {pointer}, i64 {_wrapped(total.constant)}"
            )
        return pointer

    def lane_addresses(self, base: str, buffer: Buffer, indices: Sequence[Expr], lanes: int) -> str:
        """The vector of pointers to the elements whose last index is a vector."""
        outer = Buffer(buffer.name, buffer.dtype, buffer.shape)
        start = self.address(base, outer, (*indices[:-1], Const(0, S64)))
        numbers = self._operand(indices[-1])
        kind = memory_type(buffer.dtype)
        return self._stream.value(f"getelementptr {kind}, ptr {start}, <{lanes} x i64> {numbers}")

    def _add(self, total: _Sum, index: Expr, factor: int) -> None:
        """total += factor * index."""
        if isinstance(index, Const):
            total.constant += factor * int(index.value)
            return
        if isinstance(index, Binary) and index.dtype == S64:
            if index.op in ("add", "sub"):
                self._add(total, index.left, factor)
                self._add(total, index.right, factor if index.op == "add" else -factor)
                return
            if index.op == "mul":
                for one, other in ((index.left, index.right), (index.right, index.left)):
                    if isinstance(other, Const):
                        self._add(total, one, factor * int(other.value))
                        return
        operand = self._operand(index)
        if operand.startswith("%"):
            total.terms[operand] = total.terms.get(operand, 0) + factor
        else:
            total.constant += factor * int(operand)

    def _by_scope(self, total: _Sum) -> list[str]:
        """One offset per scope, outermost first."""
        scopes: dict[int, list[str]] = {}
        for operand, factor in total.terms.items():
            if factor:
                term = self._multiplied(operand, _wrapped(factor))
                scopes.setdefault(self._stream.depth(operand), []).append(term)
        offsets = []
        for depth in sorted(scopes):
            offset, *others = scopes[depth]
            for term in others:
                offset = self._stream.value(f"add i64 {offset}, {term}", offset, term)
            offsets.append(offset)
        return offsets

    def _multiplied(self, operand: str, factor: int) -> str:
        if factor == 1:
            return operand
        return self._stream.value(f"mul i64 {operand}, {factor}", operand)


def _wrapped(number: int) -> int:
    """The s64 that an integer wraps to."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
