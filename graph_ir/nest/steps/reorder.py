"""reorder n k m

before   for m: for n: for k: f(m, n, k)
after    for n: for k: for m: f(m, n, k)
"""

from __future__ import annotations

from ....base.errors import UserError
from ..nest import Loop, Nest


def reorder(nest: Nest, *names: str) -> Nest:
    """Put the loops into the order of `names`, outermost first. Raise UserError if a tile would enclose its own
    parts."""
    if nest.stages or nest.tile:
        raise UserError("schedule: reorder: it must come before stage and tensorize")
    missing = {loop.name for loop in nest.loops}.symmetric_difference(names)
    if missing or len(set(names)) != len(names):
        wrong = sorted(missing) or sorted({name for name in names if names.count(name) > 1})
        raise UserError(
            f"schedule: reorder: every loop must be named once; check {', '.join(wrong)}"
        )
    loops = tuple(map(nest.loop, names))
    around: dict[str, Loop] = {}
    for loop in loops:
        outer = around.get(loop.axis, loop)
        if loop.step > outer.step:
            raise UserError(
                f"schedule: reorder: {outer.name} steps by {outer.step} and must be inside of {loop.name}"
            )
        around[loop.axis] = loop
    return nest.changed(loops=loops)
