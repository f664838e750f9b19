"""The global names that a code object reads, and the modules that it imports, from its bytecode."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType

Chain = tuple[str, ...]
"""A global name and the attributes that are read from it at once: `np.linalg.norm` is ("np", "linalg", "norm")."""

_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_BETWEEN = ("EXTENDED_ARG", "CACHE", "PUSH_NULL")


def reads_of(code: CodeType) -> tuple[Chain, ...]:
    """Every chain that a function reads, those of functions inside it too, sorted."""
    return tuple(sorted({chain for part in parts_of(code) for chain in _chains(part)}))


def imports_of(code: CodeType) -> tuple[str, ...]:
    """Every module that a function imports while it runs, sorted; a relative one begins with a dot."""
    found = set()
    for part in parts_of(code):
        before: list[dis.Instruction] = []
        for step in dis.get_instructions(part):
            if step.opname == "IMPORT_NAME":
                level = before[-2].argval if len(before) > 1 else 0
                found.add("." * (level if isinstance(level, int) else 1) + step.argval)
            before.append(step)
    return tuple(sorted(found))


def parts_of(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions, classes and comprehensions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from parts_of(constant)


def _chains(code: CodeType) -> Iterator[Chain]:
    chain: list[str] = []
    for step in dis.get_instructions(code):
        if chain and step.opname in _ATTRIBUTES:
            chain.append(step.argval)
        elif step.opname in _BETWEEN:
            continue
        else:
            if chain:
                yield tuple(chain)
            chain = [step.argval] if step.opname in _LOADS else []
