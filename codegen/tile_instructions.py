"""Instructions on two-dimensional registers: a register is a local buffer in Tensor IR, and in LLVM a value of the type
that its row of `TILE_ACCESS` names.

A register lives in a stack slot as <256 x i32>, which SROA and LLVM's AMX passes turn into tile registers: LLVM
allocates them, builds the configuration from the shapes, loads it once per function and releases it at the return.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..base.errors import InternalError
from ..targets.emission import Operand, parse_emission
from ..targets.isa import Instruction
from ..tensor_ir.nodes import Expr, Function, Slice
from .expressions import Expressions
from .instruction_stream import InstructionStream, Typed

_VECTOR = "<256 x i32>"


class TileInstructions:
    """Emits an instruction into a function."""

    def __init__(
        self, stream: InstructionStream, expressions: Expressions, instruction: Instruction
    ) -> None:
        self._stream = stream
        self._expressions = expressions
        assert instruction.access is not None
        self._instruction, self._access = instruction, instruction.access

    def emit(self, meaning: Function, args: Sequence[Slice | Expr]) -> None:
        """Emit an instruction with the arguments of its meaning."""
        given = dict(zip((param.name for param in meaning.params), args, strict=True))
        emission = parse_emission(self._instruction.emission)
        typed = [self._operand(given, operand) for operand in emission.operands]
        kind = self._access.contents if emission.result else "void"
        self._stream.declare(emission.intrinsic, kind, [kind for kind, _ in typed])
        shown = f"call {kind} @{emission.intrinsic}({', '.join(' '.join(one) for one in typed)})"
        if emission.result:
            self._write(given[emission.result.name], self._stream.result(shown))
        else:
            self._stream.emit(shown)

    def _operand(self, given: dict[str, Slice | Expr], operand: Operand) -> Typed:
        kind, arg, times = operand.kind, given.get(operand.name), operand.times
        if kind == self._access.contents:
            return kind, self._read(arg)
        if isinstance(arg, Slice):
            return kind, self._expressions.address(arg)
        if arg is None:
            return kind, operand.name  # a number
        factor = given.get(times, int(times) if times.isdigit() else 1)
        raised = arg * factor if times else arg  # type: ignore[operator]
        value = self._expressions.value(raised)
        if kind == "i64" or value.isdigit():
            return kind, value
        return kind, self._stream.value(f"trunc i64 {value} to {kind}", value)

    def _read(self, register: Slice | Expr | None) -> str:
        slot = self._slot(register)
        vector = self._stream.result(f"load {_VECTOR}, ptr {slot}, align 64")
        self._stream.declare(self._access.from_vector, self._access.contents, [_VECTOR])
        return self._stream.result(
            f"call {self._access.contents} @{self._access.from_vector}({_VECTOR} {vector})"
        )

    def _write(self, register: Slice | Expr | None, tile: str) -> None:
        self._stream.declare(self._access.to_vector, _VECTOR, [self._access.contents])
        vector = self._stream.result(
            f"call {_VECTOR} @{self._access.to_vector}({self._access.contents} {tile})"
        )
        self._stream.emit(f"store {_VECTOR} {vector}, ptr {self._slot(register)}, align 64")

    def _slot(self, register: Slice | Expr | None) -> str:
        if not isinstance(register, Slice):
            raise InternalError("a two-dimensional register must be a local buffer")
        return self._expressions.address(register)
