"""stage B at n0 as panel

before   for n0: for k: for n1: C[..] += A[..] * B[k, n0 * 16 + n1]
after    for n0: { panel[k, n1] = B[k, n0 * 16 + n1] }; for k: for n1: C[..] += A[..] * panel[k, n1]

The copy converts to the dtype that the instruction multiplies. A becomes rows, B a panel of the tile's columns. C
becomes accumulators, which start at zero and pass through the epilogue on their way out. `stage B at n0 as panel
above 32` reads B in place where at most 32 rows share it. `stage B at root as panels` says that B is packed once,
outside of the kernel. An image needs a layout, as in `stage A at y0 as band[iy,ix,k]` (`nest/windows.py`).
"""

from __future__ import annotations

import keyword
import re

from ....base.errors import UserError
from ..nest import Nest, Stage

TAKEN = frozenset(
    ("acc", "begin", "blocks", "chunk", "chunks", "count", "each", "edge", "end", "first", "first_left", "full",
     "left", "left_sums", "lower", "part", "rest", "size", "sum", "task", "upper", "whole", "within")
)  # fmt: skip
"""Names that the lowering of a nest gives."""


def is_free(name: str, nest: Nest) -> bool:
    """Return whether a name is a word that nothing else of a kernel is called."""
    taken = {*TAKEN, *(loop.name for loop in nest.loops), *(one.name for one in nest.stages)}
    is_word = re.fullmatch(r"[A-Za-z]\w+[A-Za-z_]", name, re.ASCII) is not None
    return (
        is_word
        and not keyword.iskeyword(name)
        and name not in taken
        and not name.startswith("size_")
    )


def stage(nest: Nest, operand: str, at: str, name: str, above: int = 0) -> Nest:
    """Keep what the loops inside `at` touch of A, B or C in a local buffer called `name`."""
    name, _, dimensions = name.partition("[")
    layout = tuple(dimensions.removesuffix("]").split(",")) if dimensions else ()
    if operand not in ("A", "B", "C"):
        raise UserError(f"schedule: stage {operand}: the operand must be A, B or C")
    if (operand, at) == ("B", "root"):
        if not nest.problem.b.blocks:
            raise UserError(
                "schedule: stage B at root: B must lie in panels, packed once before the kernel; stage it at a loop"
            )
        if (name, layout) != ("panels", ()):
            raise UserError(
                f"schedule: stage B at root: it must be called panels, got {name}{_in_brackets(layout)}"
            )
        return nest
    if nest.staged(operand):
        raise UserError(
            f"schedule: stage {operand} at {at}: {operand} is staged already and must be staged once"
        )
    if not is_free(name, nest):
        raise UserError(
            f"schedule: stage {operand} at {at}: the buffer must have a name that nothing else has, with three "
            f"letters or more, got '{name}'"
        )
    depth = nest.depth(at)
    reduced = [loop.name for loop in nest.loops[:depth] if nest.is_reduced(loop)]
    if operand == "C" and reduced:
        raise UserError(
            f"schedule: stage C at {at}: {reduced[0]} must be inside, as its iterations add to C"
        )
    lines = [loop.name for loop in nest.loops[depth:] if loop.axis == "y"]
    if operand == "C" and lines:
        raise UserError(
            f"schedule: stage C at {at}: {lines[-1]} must be outside, as the accumulators of one row wait"
        )
    fitting = nest.problem.a.dimensions if operand == "A" else ()
    if layout != fitting:
        raise UserError(
            f"schedule: stage {operand} at {at}: it must be {name}{_in_brackets(fitting)} for this operand, "
            f"got {name}{_in_brackets(layout)}"
        )
    return nest.changed(stages=(*nest.stages, Stage(operand, at, name, above, layout)))


def _in_brackets(dimensions: tuple[str, ...]) -> str:
    return f"[{','.join(dimensions)}]" if dimensions else ""
