"""Instructions on vectors that programs declare: operands are loaded from memory, the result is stored.

LLVM keeps local buffers that only such instructions and vector loops touch in registers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..base.errors import InternalError
from ..targets.isa import Instruction
from ..tensor_ir.nodes import Buffer, Expr, Function, Load, Slice
from .expressions import Expressions
from .instruction_stream import InstructionStream, Typed
from .llvm_types import type_of

CALL = re.compile(r"(?:(.+?) = )?(llvm\.[\w.]+)\((.*)\)")
OPERAND = re.compile(r"(?:(<[^>]*>|\w+) )?(\w+)")
"""Parts of an emission such as `c = llvm.fma.v8f32(a, <8 x float> b, c)`."""


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
        result, name, operands = self._parsed(CALL, self._instruction.emission)
        typed = [self._operand(part.strip()) for part in operands.split(",") if part.strip()]
        kind, to = self._parsed(OPERAND, result)
        param, target = self._given[to]
        kind, own, lanes = kind or _type(param), _type(param), _lanes(param)
        self._stream.declare(name, kind, [kind for kind, _ in typed])
        call = f"call {kind} @{name}({', '.join(' '.join(one) for one in typed)})"
        value = self._as(own, kind, self._stream.result(call))
        self._expressions.write(target.buffer, target.indices, value, lanes)

    def _parsed(self, pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
        found = pattern.fullmatch(text)
        if found is None:
            raise InternalError(f"emission of '{self._instruction.name}': '{text}' is not legal")
        return tuple(part or "" for part in found.groups())

    def _operand(self, text: str) -> Typed:
        kind, name = self._parsed(OPERAND, text)
        if name not in self._given:
            return kind, name  # a number
        param, arg = self._given[name]
        own = _type(param)
        value = self._expressions.value(Load(arg.buffer, arg.indices, _lanes(param)))
        return kind or own, self._as(kind or own, own, value)

    def _as(self, kind: str, own: str, operand: str) -> str:
        return operand if kind == own else self._stream.value(f"bitcast {own} {operand} to {kind}")


def _lanes(param: Buffer) -> int:
    (lanes,) = param.shape
    assert isinstance(lanes, int)
    return lanes


def _type(param: Buffer) -> str:
    return type_of(param.dtype, _lanes(param))
