"""parallelize b0 m0

before   for b0 in range(4): for m0 in range(8): f(b0, m0)
after    for b0 in parallel(4): for m0 in parallel(8): f(b0, m0)
"""

from __future__ import annotations

from dataclasses import replace

from ....base.errors import UserError
from ..nest import Nest


def parallelize(nest: Nest, *names: str) -> Nest:
    """Let iterations run concurrently. Raise UserError unless the loops are the outermost and reduce nothing."""
    outermost = tuple(loop.name for loop in nest.loops[: max(len(names), 1)])
    reduced = [name for name in names if nest.is_reduced(nest.loop(name))]
    if reduced:
        raise UserError(
            f"schedule: parallelize {reduced[0]}: a reduced loop must stay serial, as its iterations add to the same "
            "elements of C"
        )
    if outermost != names:
        raise UserError(
            f"schedule: parallelize: the loops must be the outermost, {' '.join(outermost)}, "
            f"got {' '.join(names) or 'none'}"
        )
    loops = [
        replace(loop, kind="parallel") if loop.name in names and loop.kind == "serial" else loop
        for loop in nest.loops
    ]
    return nest.changed(loops=tuple(loops), is_parallel=True)
