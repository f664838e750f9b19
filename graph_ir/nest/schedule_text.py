"""The text of a schedule: steps separated by semicolons, each the name of a transformation and its arguments.

split n 48; split m 32; reorder m0 n0 m1 n1 k; stage B at n0 as panel; tensorize 8x3 over m1 n1 k
"""

from __future__ import annotations

import re
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
from .steps.split import split
from .steps.stage import stage
from .steps.tensorize import tensorize

STEPS: dict[str, Callable[..., Nest]] = {
    step.__name__: step for step in (split, chunk, reorder, stage, tensorize, prefetch, parallelize)
}
_CONNECTING = frozenset(("at", "as", "over", "above"))
_TILE = re.compile(r"(\d+)x(\d+)")


def parse_steps(text: str) -> list[str]:
    """Return the text of each step. UserError for a transformation that does not exist."""
    steps = [part.strip() for part in re.split(r"[;\n]", text) if part.strip()]
    for step in steps:
        if step.split()[0] not in STEPS:
            raise UserError(
                f"schedule: '{step}': there is no transformation '{step.split()[0]}', it must be one of "
                f"{', '.join(STEPS)}"
            )
    return steps


def apply_step(nest: Nest, step: str) -> Nest:
    """Return the nest after one step. UserError where it does not apply."""
    name, *words = step.split()
    exact = {"exact": True} if words[-1:] == ["exact"] else {}
    arguments = [_argument(word) for word in words if word not in (*_CONNECTING, "exact")]
    try:
        signature(STEPS[name]).bind(nest, *arguments, **exact)
    except TypeError as error:
        raise UserError(
            f"schedule: '{step}': the step must look like the first line of `steps/{name}.py`"
        ) from error
    return STEPS[name](nest, *arguments, **exact)


def _argument(word: str) -> Any:
    tile = _TILE.fullmatch(word)
    if tile:
        return GemmTile(int(tile[1]), int(tile[2]))
    return int(word) if word.isdigit() else word


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
