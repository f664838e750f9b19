"""The rules that the lowering of a nest relies on; a schedule that breaks one is refused in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...base.dims import bounds, is_known
from ...targets.isa import Target
from .nest import Loop, Nest

MAX_COPIES = 256
"""The most iterations of reduced loops outside of register tiles, which are unrolled."""


def invalid_reason(nest: Nest, target: Target) -> str:
    """Return why a nest cannot be lowered, and what to change, "" if it can."""
    if nest.tile is None:
        return "the innermost loops must be tensorized; add a step such as tensorize 8x3 over m n k"
    rules = (_tile, _views, _copies, _sums, _stages, _chunks, _parallel)
    return next((reason for rule in rules for reason in rule(nest, target)), "")


def _inside(nest: Nest, axis: str, at: str = "") -> Any:
    """The extent of an axis inside a loop, or inside of the loops around the register tiles."""
    assert nest.tile is not None
    depth = nest.depth(at) if at else len(nest.loops) - len(nest.tile.loops)
    steps = [x.step for x in nest.loops[:depth] if x.axis == axis]
    size = nest.problem.sizes[axis]
    return min([size, *steps[-1:]]) if isinstance(size, int) else (steps or [size])[-1]


def _tile(nest: Nest, target: Target) -> Iterator[str]:
    """A tile has room for its columns, and panels are as wide as it."""
    assert nest.tile is not None
    shape, kernel, b = nest.tile.shape, nest.problem.kernel, nest.problem.b
    if min(shape.rows, shape.vectors) < 1:
        yield f"tensorize {shape.rows}x{shape.vectors}: a tile must have a row and a vector"
    columns = shape.columns(target, kernel.accumulator)
    inside = _inside(nest, "n")
    if not isinstance(inside, int) or inside > columns:
        yield f"tensorize {shape.rows}x{shape.vectors}: a tile has {columns} columns, not {inside}; split n {columns}"
    if "n" in b.blocks and b.blocks["n"][0] != columns and not nest.staged("B"):
        yield f"tensorize: B lies in panels of {b.blocks['n'][0]} columns, and the tile must be as wide, not {columns}"
    if _inside(nest, "m") == 0:
        yield "tensorize: there are no rows"


def _views(nest: Nest, target: Target) -> Iterator[str]:
    """Loops over an axis that lies in blocks are over whole blocks or inside one; groups of k stay whole."""
    for operand in "ABC":
        for axis, (width, _) in nest.problem.view(operand).blocks.items():
            for loop in (x for x in nest.loops if x.axis == axis and x.step > 1):
                if loop.step % width and width % loop.step:
                    yield f"split {axis}: {operand} lies in blocks of {width}, which {loop.step} must divide or hold"
    group = nest.problem.kernel.k_group
    for loop in nest.loops:
        if loop.axis == "k" and loop.step > 1 and loop.step % group:
            yield f"split k: the instruction takes {group} neighboring k, and {loop.step} must be a multiple of it"


def _copies(nest: Nest, target: Target) -> Iterator[str]:
    """Reduced loops outside of the tiles are unrolled."""
    assert nest.tile is not None
    copies = 1
    for loop in nest.loops[: len(nest.loops) - len(nest.tile.loops)]:
        if nest.is_reduced(loop) and is_known(nest.problem.sizes[loop.axis]):
            copies *= nest.largest(loop)
    if copies > MAX_COPIES:
        yield f"reduced loops outside of the tiles must have at most {MAX_COPIES} iterations, not {copies}; split less"


def _sums(nest: Nest, target: Target) -> Iterator[str]:
    """Accumulators that C cannot hold are staged, or all terms are summed at once."""
    assert nest.tile is not None
    if nest.problem.c.buffer.dtype == nest.problem.kernel.accumulator or nest.staged("C"):
        return
    for loop in nest.loops[: len(nest.loops) - len(nest.tile.loops)]:
        size = nest.problem.sizes[loop.axis]
        if nest.is_reduced(loop) and is_known(size) and nest.largest(loop) > 1:
            yield f"C cannot hold accumulators; stage C outside of {loop.name}"


def _stages(nest: Nest, target: Target) -> Iterator[str]:
    """A staged operand is one block of rows, one panel, or what a band of an image needs, and fits the stack."""
    for stage in nest.stages:
        where = f"stage {stage.operand} at {stage.at}"
        outside = nest.loops[: nest.depth(stage.at)]
        summed = [x.name for x in outside if nest.is_reduced(x)]
        if stage.operand == "A" and summed:
            yield f"{where}: {summed[0]} must be inside, as A is copied with all its terms"
        if stage.operand == "A" and nest.problem.a.windows:
            cut = [x.name for x in outside if x.axis == "m"]
            if cut:
                yield f"{where}: {cut[0]} must be inside, as whole rows of the image are copied"
            continue
        yield from _first_split(nest, stage.operand, where, outside)
        if stage.operand in "BC":
            columns = nest.tile.shape.columns(target, nest.problem.kernel.accumulator)  # type: ignore[union-attr]
            inside = _inside(nest, "n", stage.at if stage.at != "root" else "root")
            if is_known(nest.problem.sizes["n"]) and (
                not isinstance(inside, int) or inside > columns
            ):
                yield f"{where}: a panel has {columns} columns, not {inside}; stage it inside of the loop over panels"
        rows, depth = (_bound(_inside(nest, axis, stage.at)) for axis in "mk")
        elements = rows * depth if stage.operand == "A" else 0
        limit = target.machine.max_local_bytes
        if elements * nest.problem.kernel.copied_a.size > limit:
            yield f"{where}: {rows} x {depth} elements do not fit the {limit} bytes of local memory; split m"


def _bound(extent: Any) -> int:
    return extent if isinstance(extent, int) else bounds(extent)[1]


def _first_split(nest: Nest, operand: str, where: str, outside: tuple[Loop, ...]) -> Iterator[str]:
    """Local buffers have room for the blocks of the first split."""
    for axis, operands in (("m", "AC"), ("k", "B")):
        loops = [x for x in nest.loops if x.axis == axis]
        if operand in operands and len(loops) > 1 and loops[0] not in outside:
            yield f"{where}: {loops[0].name} must be outside, as the buffer has room for one of its blocks"


def _chunks(nest: Nest, target: Target) -> Iterator[str]:
    """Chunks are of the panels, outside of the blocks of rows."""
    names = [x.name for x in nest.loops]
    for loop in nest.loops:
        if loop.kind != "chunk":
            continue
        if loop.axis != "n":
            yield f"chunk {loop.of}: it must be a loop over panels of n"
        if names.index(loop.name) > names.index(loop.of):
            yield f"chunk {loop.of}: {loop.name} must be outside of {loop.of}"
        around = nest.loops[: nest.depth(loop.of) - 1]
        if any(x.axis == "n" and x.kind != "chunk" for x in around):
            yield f"chunk {loop.of}: it must be the outermost loop over n"


def _parallel(nest: Nest, target: Target) -> Iterator[str]:
    """Threads that share dynamic sizes are counted by blocks of rows and chunks of panels."""
    sizes = nest.problem.sizes
    if is_known(*(sizes[axis] for axis in "mnk")) or not nest.is_parallel or "y" in sizes:
        return
    parallel = [x for x in nest.loops if x.kind != "serial" and x.axis not in nest.problem.batch]
    if [(x.axis, x.kind) for x in parallel] != [("n", "chunk"), ("m", "parallel")]:
        yield "parallelize: with dynamic sizes, the loops must be those of the batch, chunks of n and one loop over m"
