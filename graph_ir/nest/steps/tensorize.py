"""tensorize 8x3 over m1 n1 k1

before   for m1: for n1: for k1: C[m1, n1] += A[m1, k1] * B[k1, n1]
after    for each 8 rows: 8 x 3 vector accumulators = 0; for k1: one row of B, 8 broadcasts of A, 24 multiply-adds

`tensorize 8x3 dot4 over m1 n1 k1` names another instruction than `fma`. More loops, `over m1 n1 k1 k2`, make a batch of
tiles that add to the same accumulators. `exact` keeps the height of the tile in panels that are narrower, and so how
sums are split.
"""

from __future__ import annotations

from ....base.errors import UserError
from ....targets.isa import GemmTile
from ..nest import Nest, Tile


def tensorize(nest: Nest, shape: GemmTile, *names: str, exact: bool = False) -> Nest:
    """Run the innermost loops as register tiles. Raise UserError unless they are the innermost, of rows, columns,
    depth."""
    instruction, known = nest.problem.kernel.instruction, {loop.name for loop in nest.loops}
    named, names = (names[0], names[1:]) if names and names[0] not in known else ("fma", names)
    if named != instruction:
        raise UserError(
            f"schedule: tensorize: the instruction must be {instruction}, as the operands are laid out, got {named}"
        )
    if nest.tile is not None:
        raise UserError(
            "schedule: tensorize: there must be one register tile, and one has been chosen"
        )
    if not names:
        raise UserError(
            "schedule: tensorize: it must name the innermost loops, as in 'tensorize 8x3 over m1 n1 k1'"
        )
    inner = nest.loops[-len(names) :]
    free = [loop.axis for loop in inner if not nest.is_reduced(loop)]
    reduced = [nest.is_reduced(loop) for loop in inner]
    if tuple(loop.name for loop in inner) != names or not (
        reduced[-1:] == [True]
        and reduced == sorted(reduced)
        and free in (["m", "n"], ["y", "m", "n"])
    ):
        axes = ", ".join(nest.problem.reduced)
        raise UserError(
            f"schedule: tensorize: {' '.join(names)} must be the innermost loops, over m, n and {axes}"
        )
    padded = any(x.is_padded(nest.problem.sizes) for x in nest.problem.a.windows.values())
    if padded and not nest.staged("A"):
        raise UserError(
            "schedule: tensorize: an image with padding must be staged first, as in 'stage A at y0 as band[iy,ix,k]'"
        )
    return nest.changed(tile=Tile(shape, names, exact))
