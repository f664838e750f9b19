"""Instructions that programs declare: rules of meaning and emission. `lab/user_instructions.py` tries them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ..base.errors import GraphcError, UserError
from ..targets.isa import INSTRUCTIONS, Instruction, Target
from ..tensor_ir.instructions import instructions_in
from ..tensor_ir.nodes import Buffer, Function, Module, Store
from ..tensor_ir.parser import parse_function
from ..tensor_ir.verifier import verify
from ..tensor_ir.visitor import walk_statements

_WORD = r"(?:(?:<\d+ x \w+>|\w+) )?(\w+)"
EMISSION = re.compile(rf"{_WORD} = llvm\.[\w.]+\(({_WORD}(?:, {_WORD})*)\)")


@contextmanager
def declared(instruction: Instruction) -> Iterator[Function]:
    """Make an instruction known, unless what is done with its meaning fails.

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
    except GraphcError:
        del INSTRUCTIONS[instruction.name]
        raise


def check_available(function: Function, target: Target) -> None:
    """Raise UserError if a function has an instruction that a target lacks."""
    for one in instructions_in(function):
        missing = [feature for feature in one.needs if not target.has(feature)]
        if missing:
            raise UserError(
                f"instruction '{one.name}': the target must have {missing[0]}, got {target.isa}; add it to the name, "
                f"{target.isa}+{missing[0]}, or accept the op only where `available(target)` holds"
            )


def _check_params(instruction: Instruction, meaning: Function) -> None:
    for param in meaning.params:
        is_vector = isinstance(param, Buffer) and len(param.shape) == 1
        if not is_vector or not isinstance(param.shape[0], int):  # type: ignore[union-attr]
            raise _wrong(instruction, f"operand '{param.name}' must be a vector such as f32[16]")


def _check_emission(instruction: Instruction, meaning: Function) -> None:
    found = EMISSION.fullmatch(instruction.emission)
    if found is None:
        raise _wrong(
            instruction,
            f"its emission must be like 'c = llvm.name(c, <16 x i32> a, i32 4)', got '{instruction.emission}'",
        )
    names = {param.name for param in meaning.params}
    stores = (s for s in walk_statements(meaning.body) if isinstance(s, Store))
    written = {s.buffer.name for s in stores} & names
    if written != {found[1]}:
        raise _wrong(
            instruction,
            f"its emission must set what its meaning writes, {', '.join(sorted(written))}, got {found[1]}",
        )
    used = {part.split()[-1] for part in found[2].split(",")}
    if unused := sorted(names - used - written):
        raise _wrong(instruction, f"its emission must have all operands, got none of {unused[0]}")
    unknown = sorted(name for name in used - names if not name.isdigit())
    if unknown:
        raise _wrong(
            instruction, f"its emission must have operands of its meaning, got {unknown[0]}"
        )


def _wrong(instruction: Instruction, rule: str) -> UserError:
    return UserError(f"instruction '{instruction.name}': {rule}")
