"""Instructions that programs declare: rules of meaning and emission. `lab/user_instructions.py` tries them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..base.errors import GraphcError, UserError
from ..targets.emission import parse_emission
from ..targets.isa import INSTRUCTIONS, Instruction, Target
from ..tensor_ir.instructions import instructions_in
from ..tensor_ir.nodes import Buffer, Function, Module, Store
from ..tensor_ir.parser import parse_function
from ..tensor_ir.verifier import verify
from ..tensor_ir.visitor import walk_statements


@contextmanager
def declared(instruction: Instruction) -> Iterator[Function]:
    """Make an instruction known, unless what is done with its meaning fails: then what was known of its name is kept.

    Raise UserError if meaning and emission do not fit."""
    known = INSTRUCTIONS.get(instruction.name)
    if known is not None and known.access is not None:
        raise _wrong(instruction, "its name must not be one of graphc's")
    try:
        meaning = parse_function(instruction.meaning)
        verify(Module((meaning,)))
    except GraphcError as error:
        raise _wrong(instruction, f"its meaning must be legal Tensor IR: {error}") from error
    _check_params(instruction, meaning)
    _check_emission(instruction, meaning)
    INSTRUCTIONS[instruction.name] = instruction
    try:
        yield meaning
    except BaseException:
        if known is None:
            del INSTRUCTIONS[instruction.name]
        else:
            INSTRUCTIONS[known.name] = known
        raise


def check_available(function: Function, target: Target) -> None:
    """Raise UserError if a function has an instruction that a target lacks."""
    for one in instructions_in(function):
        missing = [feature for feature in one.needs if not target.has(feature)]
        if missing:
            raise UserError(
                f"instruction '{one.name}': the target must have {missing[0]}, got {target.isa}; add it to the name, "
                f"as in native+{missing[0]}, or accept the op only where `available(target)` holds"
            )


def _check_params(instruction: Instruction, meaning: Function) -> None:
    for param in meaning.params:
        is_vector = isinstance(param, Buffer) and len(param.shape) == 1
        if not is_vector or not isinstance(param.shape[0], int):  # type: ignore[union-attr]
            raise _wrong(instruction, f"operand '{param.name}' must be a vector such as f32[16]")


def _check_emission(instruction: Instruction, meaning: Function) -> None:
    try:
        emission = parse_emission(instruction.emission)
    except UserError as error:
        raise _wrong(instruction, f"its {error}") from None
    result = emission.result.name if emission.result else "nothing"
    names = {param.name for param in meaning.params}
    stores = (s for s in walk_statements(meaning.body) if isinstance(s, Store))
    written = {s.buffer.name for s in stores} & names
    if written != {result}:
        raise _wrong(
            instruction,
            f"its emission must set what its meaning writes, {', '.join(sorted(written))}, got {result}",
        )
    used = {operand.name for operand in emission.operands}
    if unused := sorted(names - used - written):
        raise _wrong(instruction, f"its emission must have all operands, got none of {unused[0]}")
    if unknown := sorted(name for name in used - names if not name.isdigit()):
        raise _wrong(
            instruction, f"its emission must have operands of its meaning, got {unknown[0]}"
        )
    if factors := [operand.times for operand in emission.operands if operand.times]:
        raise _wrong(instruction, f"its emission must not multiply operands, got '* {factors[0]}'")


def _wrong(instruction: Instruction, rule: str) -> UserError:
    return UserError(f"instruction '{instruction.name}': {rule}")
