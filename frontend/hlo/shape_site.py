"""The context of a shape rule: one instruction, the shapes of its operands, and the computations it calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from ...base.errors import GraphcError
from .shapes import Shape
from .syntax import Called, Computation, Instruction, Origin

Value = TypeVar("Value")


class Site:
    """An instruction and its surroundings; errors name the instruction and where it is."""

    __slots__ = ("checked", "instruction", "operands", "origin")

    def __init__(
        self,
        instruction: Instruction,
        operands: list[Shape],
        checked: Mapping[str, Computation],
        origin: Origin,
    ) -> None:
        self.instruction = instruction
        self.operands = operands
        self.checked = checked
        self.origin = origin

    def fail(self, message: str) -> GraphcError:
        """An error about this instruction."""
        i = self.instruction
        return self.origin.error(f"{i.opcode} '{i.name}': {message}", i.place)

    def count(self, least: int, most: int | None = None) -> None:
        """Check the number of operands; `most` is `least` unless given, -1 for any."""
        most = least if most is None else most
        number = len(self.operands)
        if number < least or (most >= 0 and number > most):
            wanted = str(least) if most == least else f"{least} or more"
            if most > least:
                wanted = f"{least} to {most}"
            raise self.fail(f"it must have {wanted} operands, got {number}")

    def array(self, index: int) -> Shape:
        """The shape of operand `index`, which must be an array."""
        shape = self.operands[index]
        if shape.is_tuple or shape.type in ("token", "opaque"):
            raise self.fail(f"operand {index} must be an array, got {shape.logical()}")
        return shape

    def attribute(self, name: str, kind: type[Value], default: Value | None = None) -> Value:
        """An attribute of this kind. UserError where it is absent without a default, or of another kind."""
        value = self.instruction.attributes.get(name, default)
        if value is None:
            raise self.fail(f"attribute '{name}' must be given")
        if not isinstance(value, kind):
            raise self.fail(f"attribute '{name}' must be a {kind.__name__}")
        return value

    def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """A list of integers."""
        return self.attribute(name, tuple, default)

    def axes(self, name: str, rank: int, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """A list of distinct axes of an array of this rank."""
        axes = self.integers(name, default)
        if len(set(axes)) != len(axes) or any(not 0 <= axis < rank for axis in axes):
            raise self.fail(
                f"{name} must be distinct axes below {rank}, got {{{','.join(map(str, axes))}}}"
            )
        return axes

    def written(self) -> Shape:
        """The shape in the text, which such an instruction must have."""
        shape = self.instruction.shape
        if shape is None:
            raise self.fail("its shape must be written")
        return shape

    def called(self, name: str) -> tuple[list[Shape], Shape]:
        """(shapes of the parameters, shape of the result) of the computation an attribute names."""
        return self.computation(self.attribute(name, Called))

    def computation(self, called: Called) -> tuple[list[Shape], Shape]:
        """(shapes of the parameters, shape of the result) of a computation."""
        computation = self.checked.get(called.name)
        if computation is None:
            raise self.fail(f"computation '{called.name}' must be defined before it is used")
        shapes = {i.name: i.shape for i in computation.instructions}
        result = shapes[computation.root]
        assert result is not None
        return [p.shape for p in computation.parameters if p.shape is not None], result

    def takes(self, name: str, parameters: Sequence[Shape], given: Sequence[Shape]) -> None:
        """Check a computation's parameters against its arguments."""
        fits = len(parameters) == len(given) and all(
            p.matches(g) for p, g in zip(parameters, given, strict=True)
        )
        if not fits:
            wanted = ", ".join(p.logical() for p in parameters)
            got = ", ".join(g.logical() for g in given)
            raise self.fail(f"{name} takes ({wanted}), but is given ({got})")
