"""The text of a schedule: steps separated by semicolons, each the name of a transformation and its arguments.

split n 48; split m 32; reorder m0 n0 m1 n1 k; stage B at n0 as panel; tensorize 8x3 over m1 n1 k
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any

from ...base.errors import UserError
from ...targets.isa import GemmTile
from .nest import Nest
from .steps.chunk import chunk
from .steps.parallelize import parallelize
from .steps.prefetch import prefetch
from .steps.reorder import reorder
from .steps.specialize import specialize
from .steps.split import split
from .steps.stage import stage
from .steps.tensorize import tensorize
from .steps.tile import tile

STEPS: dict[str, Callable[..., Nest]] = {
    step.__name__: step
    for step in (split, tile, chunk, reorder, stage, tensorize, prefetch, parallelize, specialize)
}
_CONNECTING = frozenset(("at", "as", "over", "above"))
_TILE = re.compile(r"([0-9]{1,4})x([0-9]{1,4})")
_NUMBER = re.compile(r"[0-9]{1,9}")
KINDS: dict[str, tuple[type, str]] = {
    "str": (str, "a name"),
    "int": (int, "a number"),
    "GemmTile": (GemmTile, "a register tile such as 8x3"),
}
"""The types of arguments of transformations, and what a message calls them."""


def parse_steps(text: str) -> list[str]:
    """Return the text of each step. Raise UserError for a transformation that does not exist."""
    steps = [part.strip() for part in re.split(r"[;\n]", text) if part.strip()]
    for step in steps:
        if step.split()[0] not in STEPS:
            raise UserError(
                f"schedule: '{step}': there is no transformation '{step.split()[0]}', it must be one of "
                f"{', '.join(STEPS)}"
            )
    return steps


def apply_step(nest: Nest, step: str) -> Nest:
    """Return the nest after one step. Raise UserError if it does not apply."""
    name, *words = step.split()
    exact = {"exact": True} if words[-1:] == ["exact"] else {}
    arguments = [_argument(word) for word in words if word not in (*_CONNECTING, "exact")]
    try:
        bound = signature(STEPS[name]).bind(nest, *arguments, **exact)
    except TypeError as error:
        raise UserError(
            f"schedule: '{step}': the step must look like '{_example(name)}'"
        ) from error
    for argument, value in list(bound.arguments.items())[1:]:
        _check(step, argument, str(bound.signature.parameters[argument].annotation), value)
    return STEPS[name](nest, *arguments, **exact)


def _argument(word: str) -> Any:
    shape = _TILE.fullmatch(word)
    if shape:
        return GemmTile(int(shape[1]), int(shape[2]))
    return int(word) if _NUMBER.fullmatch(word) else word


def _check(step: str, argument: str, annotation: str, value: Any) -> None:
    """Refuse an argument of another kind than the transformation takes."""
    allowed = [KINDS[name] for name in annotation.split(" | ") if name in KINDS]
    for one in value if isinstance(value, tuple) else (value,):
        if allowed and not isinstance(one, tuple(kind for kind, _ in allowed)):
            raise UserError(
                f"schedule: '{step}': {argument} must be {' or '.join(x for _, x in allowed)}, got '{one}'; "
                f"the step must look like '{_example(step.split()[0])}'"
            )


def _example(name: str) -> str:
    """A step as the first line of its module shows it."""
    module = sys.modules[STEPS[name].__module__]
    return str(module.__doc__).splitlines()[0]


def steps_of(nest: Nest, schedule: str) -> Iterator[tuple[str, Nest]]:
    """Yield (step, nest after it) for each step of a schedule."""
    for step in parse_steps(schedule):
        nest = apply_step(nest, step)
        yield step, nest


def apply(nest: Nest, schedule: str) -> Nest:
    """Return the nest after all steps of a schedule."""
    for step in parse_steps(schedule):
        nest = apply_step(nest, step)
    return nest
