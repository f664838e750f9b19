"""split n 48

before   for n in range(100): f(n)
after    for n0 in range(3): for n1 in range(min(100 - n0 * 48, 48)): f(n0 * 48 + n1)

`split n 48 16` splits n1 once more. `split m even 96` makes iterations of at most 96 that are equally long.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from ....base.errors import UserError
from ..nest import Loop, Nest


def split(nest: Nest, name: str, *factors: int | str) -> Nest:
    """Split a loop into loops over ever smaller tiles. Raise UserError unless each factor divides the one before it."""
    loop, even = nest.loop(name), factors[:1] == ("even",)
    sizes = [x for x in factors if isinstance(x, int)]
    is_list = bool(sizes) and len(sizes) + even == len(factors) and min(sizes) >= 1
    if not is_list or any(above % below for above, below in pairwise(sizes)):
        given = " ".join(map(str, factors))
        raise UserError(
            f"schedule: split {name}: the factors must be numbers from 1, each dividing the one before it, "
            f"got '{given}'"
        )
    if nest.stages or nest.tile:
        raise UserError(f"schedule: split {name}: it must come before stage and tensorize")
    steps = [size * loop.step for size in (*sizes, 1)]
    parts = tuple(
        replace(loop, name=f"{name}{level}", step=step, even=even and not level)
        for level, step in enumerate(steps)
    )
    at = nest.loops.index(loop)
    loops: tuple[Loop, ...] = (*nest.loops[:at], *parts, *nest.loops[at + 1 :])
    return nest.changed(loops=loops)
