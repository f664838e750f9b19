"""Arithmetic on the 32-bit patterns in the lanes of a vector: what conversions between element types are made of."""

from __future__ import annotations

from ..base.dtypes import BOOL, S32, DType
from .instruction_stream import InstructionStream
from .llvm_types import constant, splat, type_of, vector_of


class LaneBits:
    """Emits one instruction per method into one function."""

    def __init__(self, stream: InstructionStream) -> None:
        self._stream = stream

    def _pure(self, instruction: str, lanes: int, *operands: str) -> str:
        return self._stream.pure(instruction, lanes, *operands)

    def _convert(self, name: str, value: str, source: DType, target: DType, lanes: int) -> str:
        if not name:
            return value
        text = f"{name} {type_of(source, lanes)} {value} to {type_of(target, lanes)}"
        return self._pure(text, lanes, value)

    def _below(self, value: str, limit: int, lanes: int) -> str:
        return self._compare(
            "icmp ult", type_of(S32, lanes), value, constant(limit, S32, lanes), lanes
        )

    def _int(self, op: str, value: str, number: int, lanes: int) -> str:
        signed = number - (1 << 32) if number >= 1 << 31 else number
        other = splat("i32", str(signed), lanes)
        return self._pure(f"{op} {type_of(S32, lanes)} {value}, {other}", lanes, value)

    def _both(self, op: str, left: str, right: str, lanes: int) -> str:
        return self._pure(f"{op} {type_of(S32, lanes)} {left}, {right}", lanes, left, right)

    def _bits(self, to: str, value: str, lanes: int) -> str:
        source = "float" if to == "i32" else "i32"
        text = f"bitcast {vector_of(source, lanes)} {value} to {vector_of(to, lanes)}"
        return self._pure(text, lanes, value)

    def _compare(self, op: str, kind: str, left: str, right: str, lanes: int) -> str:
        return self._pure(f"{op} {kind} {left}, {right}", lanes, left, right)

    def _choose(
        self, condition: str, then: str, otherwise: str, lanes: int, dtype: DType = S32
    ) -> str:
        kind, i1 = type_of(dtype, lanes), type_of(BOOL, lanes)
        text = f"select {i1} {condition}, {kind} {then}, {kind} {otherwise}"
        return self._pure(text, lanes, condition, then, otherwise)
