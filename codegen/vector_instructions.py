"""Instructions on vectors that programs declare: operands are loaded from memory, the result is stored.

LLVM keeps local buffers that only such instructions and vector loops touch in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..targets.emission import Operand, parse_emission
from ..targets.isa import Instruction
from ..tensor_ir.nodes import Buffer, Expr, Function, Load, Slice
from .expressions import Expressions
from .instruction_stream import InstructionStream, Typed
from .llvm_types import type_of


class VectorInstructions:
    """Emits an instruction into a function."""

    def __init__(
        self, stream: InstructionStream, expressions: Expressions, instruction: Instruction
    ) -> None:
        self._stream = stream
        self._expressions = expressions
        self._instruction = instruction
        self._given: dict[str, tuple[Buffer, Slice]] = {}

    def emit(self, meaning: Function, args: Sequence[Slice | Expr]) -> None:
        """Emit the instruction with the arguments of its meaning."""
        for param, arg in zip(meaning.params, args, strict=True):
            if isinstance(param, Buffer) and isinstance(arg, Slice):
                self._given[param.name] = param, arg
        emission = parse_emission(self._instruction.emission)
        assert emission.result is not None
        operands = [self._operand(operand) for operand in emission.operands]
        param, target = self._given[emission.result.name]
        own = _type(param)
        kind = emission.result.kind or own
        value = self._as(own, kind, self._stream.intrinsic(emission.intrinsic, kind, *operands))
        self._expressions.write(target.buffer, target.indices, value, _lanes(param))

    def _operand(self, operand: Operand) -> Typed:
        if operand.name not in self._given:
            return operand.kind, operand.name  # a number
        param, arg = self._given[operand.name]
        own = _type(param)
        kind = operand.kind or own
        value = self._expressions.value(Load(arg.buffer, arg.indices, _lanes(param)))
        return kind, self._as(kind, own, value)

    def _as(self, kind: str, own: str, operand: str) -> str:
        return operand if kind == own else self._stream.value(f"bitcast {own} {operand} to {kind}")


def _lanes(param: Buffer) -> int:
    (lanes,) = param.shape
    assert isinstance(lanes, int)
    return lanes


def _type(param: Buffer) -> str:
    return type_of(param.dtype, _lanes(param))
