"""Instructions of a target as Tensor IR: an `Invoke` may name one, and the interpreter runs its meaning."""

from __future__ import annotations

from functools import cache

from ..targets.isa import INSTRUCTIONS, Instruction
from .nodes import Function, Invoke
from .parser import parse_function
from .visitor import walk_statements


def instruction_meaning(name: str) -> Function | None:
    """Return the function that an instruction computes; None if there is no instruction of that name."""
    known = INSTRUCTIONS.get(name)
    return None if known is None else _parsed(known.meaning)


@cache
def _parsed(meaning: str) -> Function:
    return parse_function(meaning)


def instructions_in(function: Function) -> list[Instruction]:
    """Return the instructions that a function names, each once."""
    calls = (s for s in walk_statements(function.body) if isinstance(s, Invoke))
    names = dict.fromkeys(s.function for s in calls if s.function in INSTRUCTIONS)
    return [INSTRUCTIONS[name] for name in names]


def invokes(function: Function) -> bool:
    """Return whether a function calls others of its module."""
    calls = (s for s in walk_statements(function.body) if isinstance(s, Invoke))
    return any(s.function not in INSTRUCTIONS for s in calls)
