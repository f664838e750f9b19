"""Asynchronous operations: on one device `-start` does all of the work, and `-done` hands out its result."""

from __future__ import annotations

from typing import Any

from .collectives import COLLECTIVES, IN_PLACE
from .scope import Handler, Step
from .values import fits


def _start(step: Step) -> Any:
    """(operands, result, numbers that say how far it is), or only the result where that is how it is written."""
    shape, opcode = step.shape, step.type.removesuffix("-start")
    if opcode == "all-reduce":
        return step.owner.handle(step.instead(opcode, shape))
    if len(shape.elements) < 2:
        raise step.rule("its shape must be (operands, result, ..)", shape.logical())
    given, result, *rest = shape.elements
    value = step.owner.handle(step.instead("fusion" if opcode == "async" else opcode, result))
    operands = tuple(step.operands)
    is_list = fits(given, operands)
    is_one = len(operands) == 1 or IN_PLACE in step.instruction.attributes
    if not is_list and not (is_one and fits(given, operands[0])):
        raise step.rule("its shape must begin with its operands", given.logical())
    return (operands if is_list else operands[0], value, *map(step.zeros, rest))


def _update(step: Step) -> Any:
    step.count(1)
    return step.operands[0]


def _done(step: Step) -> Any:
    """The result in what `-start` gives."""
    step.count(1)
    started = step.operands[0]
    if step.type == "all-reduce-done":
        return started
    if not isinstance(started, tuple) or len(started) < 2:
        raise step.fail("its operand must be what the operation's start gives")
    return started[1]


_ANY = ("async", "call", "custom-call", "dynamic-slice", "dynamic-update-slice", "fusion", "slice")
"""Operations besides collectives and copies, as XLA writes them: `async-start` calls a computation."""

_OPCODES = (*COLLECTIVES, *_ANY, "collective-permute", "copy")

HANDLERS: dict[str, Handler] = {
    **{f"{name}-start": _start for name in _OPCODES},
    **{f"{name}-update": _update for name in _ANY},
    **{f"{name}-done": _done for name in _OPCODES},
}
