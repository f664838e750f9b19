"""Operands of ops, declared as members of their class: `op.x` is the edge that the op reads there."""

from __future__ import annotations

from typing import TypeVar, overload

from .op import GraphTensor, Op
from .schema import OperandDeclaration

Self = TypeVar("Self", bound=OperandDeclaration)


def _read(operand: OperandDeclaration, op: Op) -> tuple[GraphTensor, ...]:
    span = op.schema.span(operand, len(op.inputs))
    return tuple(op.inputs[span.start : span.stop])


class Operand(OperandDeclaration):
    """An operand that is always there."""

    @overload
    def __get__(self: Self, op: None, owner: type) -> Self: ...
    @overload
    def __get__(self, op: Op, owner: type) -> GraphTensor: ...
    def __get__(self, op: Op | None, owner: type) -> OperandDeclaration | GraphTensor:
        """The edge; of a class the declaration."""
        return self if op is None else _read(self, op)[0]


class OptionalOperand(OperandDeclaration):
    """An operand that may be absent if those after it are too."""

    optional = True

    @overload
    def __get__(self: Self, op: None, owner: type) -> Self: ...
    @overload
    def __get__(self, op: Op, owner: type) -> GraphTensor | None: ...
    def __get__(self, op: Op | None, owner: type) -> OperandDeclaration | GraphTensor | None:
        """The edge or None; of a class the declaration."""
        return self if op is None else next(iter(_read(self, op)), None)


class VariadicOperand(OperandDeclaration):
    """Any number of operands, `least` or more. Several variadic ones of an op are equally long."""

    variadic = True

    def __init__(self, meaning: str = "", least: int = 0) -> None:
        super().__init__(meaning)
        self.least = least

    @overload
    def __get__(self: Self, op: None, owner: type) -> Self: ...
    @overload
    def __get__(self, op: Op, owner: type) -> tuple[GraphTensor, ...]: ...
    def __get__(self, op: Op | None, owner: type) -> OperandDeclaration | tuple[GraphTensor, ...]:
        """The edges; of a class the declaration."""
        return self if op is None else _read(self, op)
