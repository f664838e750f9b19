"""chunk n0 2

before   for n0 in range(10): f(n0)
after    for n0_chunk in range(2): for n0 in range(n0_chunk * 5, n0_chunk * 5 + 5): f(n0)

`chunk n0` alone decides the number of chunks when the nest runs, from its sizes and the number of threads.
"""

from __future__ import annotations

from ....base.errors import UserError
from ..nest import Loop, Nest


def chunk(nest: Nest, name: str, chunks: int = 0) -> Nest:
    """Cut the iterations of a loop into contiguous chunks, which threads may run. Raise UserError for a reduced
    loop."""
    loop = nest.loop(name)
    if nest.is_reduced(loop):
        raise UserError(
            f"schedule: chunk {name}: a reduced loop must stay whole, as its iterations add to the same elements of C"
        )
    outer = Loop(f"{name}_chunk", loop.axis, loop.step, "chunk", of=name, chunks=chunks)
    at = nest.loops.index(loop)
    return nest.changed(loops=(*nest.loops[:at], outer, *nest.loops[at:]))
