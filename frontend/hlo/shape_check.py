"""Checks every instruction's shape against the one inferred from its operands: the best early check for mistakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ...base.errors import GraphcError
from .shape_rules import RULES
from .shape_site import Site
from .shapes import Shape
from .syntax import Computation, Instruction, Module

_COMPUTED_SHAPES = Callable[[Site], "Shape | None"]


def check_shapes(module: Module) -> Module:
    """The module with every instruction's shape filled in. UserError if one differs from the inferred shape."""
    checked: dict[str, Computation] = {}
    for name, computation in module.computations.items():
        checked[name] = _Checker(module, checked, computation).run()
    return replace(module, computations=checked)


class _Checker:
    """Checks one computation; those it calls have been checked."""

    def __init__(
        self, module: Module, checked: Mapping[str, Computation], computation: Computation
    ) -> None:
        self.module = module
        self.computation = computation
        self.shapes: dict[str, Shape] = {}
        self.checked = checked

    def run(self) -> Computation:
        """The computation with all shapes filled in."""
        instructions = tuple(self.instruction(i) for i in self.computation.instructions)
        self.check_signature()
        return replace(self.computation, instructions=instructions)

    def instruction(self, instruction: Instruction) -> Instruction:
        site = Site(instruction, self.operands(instruction), self.checked, self.module.origin)
        rule = RULES.get(instruction.opcode)
        inferred = rule(site) if rule else None
        written = instruction.shape
        if written is None:
            if inferred is None:
                raise site.fail("its shape must be written")
            instruction = replace(instruction, shape=inferred)
            written = inferred
        elif inferred is not None and inferred is not written and not inferred.matches(written):
            raise site.fail(f"its shape must be {inferred.logical()}, got {written.logical()}")
        self.shapes[instruction.name] = written
        return instruction

    def operands(self, instruction: Instruction) -> list[Shape]:
        shapes = []
        for name, path, written in instruction.operands:
            shape = self.shapes[name]
            for index in path:
                if not shape.is_tuple or not 0 <= index < len(shape.elements):
                    raise self.error(
                        instruction, f"'{name}' of shape {shape.logical()} has no element {index}"
                    )
                shape = shape.elements[index]
            if written is not None and written is not shape and not written.matches(shape):
                raise self.error(
                    instruction,
                    f"operand '{name}' is {shape.logical()}, written as {written.logical()}",
                )
            shapes.append(shape)
        return shapes

    def check_signature(self) -> None:
        """The written parameters and result are those of the body."""
        computation = self.computation
        if computation.signature is None:
            return
        written, result = computation.signature
        given = [self.shapes[p.name] for p in computation.parameters]
        if len(written) != len(given):
            raise self.module.origin.error(
                f"computation '{computation.name}' must have the {len(written)} parameters of its "
                f"signature, got {len(given)}",
                computation.place,
            )
        pairs = [
            (f"parameter {i}", w, g)
            for i, ((_, w), g) in enumerate(zip(written, given, strict=True))
        ]
        pairs.append(("its result", result, self.shapes[computation.root]))
        for what, wanted, got in pairs:
            if not wanted.matches(got):
                raise self.module.origin.error(
                    f"computation '{computation.name}': {what} must be {wanted.logical()} as in its "
                    f"signature, got {got.logical()}",
                    computation.place,
                )

    def error(self, instruction: Instruction, message: str) -> GraphcError:
        return self.module.origin.error(
            f"{instruction.opcode} '{instruction.name}': {message}", instruction.place
        )
