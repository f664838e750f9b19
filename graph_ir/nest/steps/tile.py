"""tile m n 20 24

before   for m in range(100): for n in range(72): for k in range(64): f(m, n, k)
after    for m0 in range(5): for n0 in range(3): for m1 in range(20): for n1 in range(24): for k in range(64):
             f(m0 * 20 + m1, n0 * 24 + n1, k)

The loops over tiles begin where the first loop named was, those inside of a tile follow, then the other loops.
"""

from __future__ import annotations

from ....base.errors import UserError
from ..nest import Nest
from .reorder import reorder
from .split import split


def tile(nest: Nest, *loops: str | int) -> Nest:
    """Split loops and put their inner parts together. Raise UserError unless each loop is named once and has a size."""
    count = len(loops) // 2
    names = [x for x in loops[:count] if isinstance(x, str)]
    sizes = [x for x in loops[count:] if isinstance(x, int)]
    if not count or not len(set(names)) == len(sizes) == count == len(loops) - count:
        raise UserError(
            f"schedule: tile {' '.join(map(str, loops))}: there must be loops, each once, then as many sizes, as in "
            "tile m n 20 24"
        )
    at = min(nest.loops.index(nest.loop(name)) for name in names)
    before = [loop.name for loop in nest.loops[:at]]
    after = [loop.name for loop in nest.loops[at:] if loop.name not in names]
    for name, size in zip(names, sizes, strict=True):
        nest = split(nest, name, size)
    return reorder(nest, *before, *(f"{x}{level}" for level in (0, 1) for x in names), *after)
