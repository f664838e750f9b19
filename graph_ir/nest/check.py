"""The rules that the lowering of a nest relies on; a schedule that breaks one is refused in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...base.dims import bounds, is_known
from ...targets.isa import Target
from .nest import Loop, Nest, Stage
from .tasks import task_count

MAX_COPIES = 256
"""The most iterations of reduced loops outside of register tiles, which are unrolled."""


def invalid_reason(nest: Nest, target: Target) -> str:
    """Return why a nest cannot be lowered, and what to change, "" if it can."""
    if nest.tile is None:
        return "the innermost loops must be tensorized; add a step such as tensorize 8x3 over m n k"
    rules = (_tile, _views, _order, _copies, _sums, _stages, _chunks, _parallel)
    reason = next((reason for rule in rules for reason in rule(nest, target)), "")
    return reason or (invalid_reason(nest.otherwise.nest, target) if nest.otherwise else "")


def _around(nest: Nest) -> tuple[Loop, ...]:
    """The loops outside of the register tiles."""
    assert nest.tile is not None
    return nest.loops[: len(nest.loops) - len(nest.tile.loops)]


def _inside(nest: Nest, axis: str, at: str = "") -> Any:
    """The extent of an axis inside a loop, or inside of the loops around the register tiles."""
    assert nest.tile is not None
    around = nest.loops[: nest.depth(at)] if at else _around(nest)
    steps = [x.step for x in around if x.axis == axis and x.kind != "chunk"]
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
    staged = nest.staged("B")
    if (staged is None or staged.above) and (
        b.strides["n"] != 1 or (kernel.k_group > 1 and not b.blocks)
    ):
        yield "tensorize: B must lie as the instruction reads it; add a step such as stage B at n0 as panel"
    if _inside(nest, "m") == 0:
        yield "tensorize: there are no rows"


def _views(nest: Nest, target: Target) -> Iterator[str]:
    """Loops over an axis that lies in blocks are over whole blocks or inside one; groups of k stay whole."""
    for operand in "ABC":
        for axis, (width, _) in nest.problem.view(operand).blocks.items():
            for loop in (x for x in nest.loops if x.axis == axis and x.step > 1):
                if loop.step % width and width % loop.step:
                    yield f"split {axis}: {operand} lies in blocks of {width}, which {loop.step} must divide or hold"
    panels = nest.problem.b.blocks.get("n", (0, 0))[0]
    if panels and not nest.staged("B"):
        for loop in _around(nest):
            if loop.axis == "n" and loop.step % panels:
                yield f"split n: B lies in panels of {panels} columns, and {loop.step} must be a multiple of it"
    group = nest.problem.kernel.k_group
    for loop in nest.loops:
        if loop.axis == "k" and loop.step > 1 and loop.step % group:
            yield f"split k: the instruction takes {group} neighboring k, and {loop.step} must be a multiple of it"


def _order(nest: Nest, target: Target) -> Iterator[str]:
    """Register tiles sum over two loops, the last of which neighboring k share."""
    assert nest.tile is not None
    loops = [x for x in map(nest.loop, nest.tile.loops) if nest.is_reduced(x)]
    axes = [x.axis for x in loops]
    for axis in set(axes):
        if axes.count(axis) > 1 and (axes[-2:] != [axis, axis] or axes.count(axis) > 2):
            yield f"tensorize: of the loops over {axis}, two may be in the tile, and they must be its last"
    if axes[-2:-1] == axes[-1:] and loops[-2].step == loops[-1].step:
        yield f"split {axes[-1]}: the last factor must be more than 1, as both loops are in the tile"
    if nest.problem.kernel.k_group > 1 and axes[-1] != "k":
        yield "tensorize: the last loop must be over k, of which the instruction takes several neighbors"


def _copies(nest: Nest, target: Target) -> Iterator[str]:
    """Reduced loops outside of the tiles are unrolled."""
    assert nest.tile is not None
    copies = 1
    for loop in _around(nest):
        if nest.is_reduced(loop) and is_known(nest.problem.sizes[loop.axis]):
            copies *= nest.largest(loop)
    if copies > MAX_COPIES:
        yield f"reduced loops outside of the tiles must have at most {MAX_COPIES} iterations, not {copies}; split less"


def _sums(nest: Nest, target: Target) -> Iterator[str]:
    """Accumulators that C cannot hold are staged, or all terms are summed at once."""
    assert nest.tile is not None
    if nest.problem.c.buffer.dtype == nest.problem.kernel.accumulator or nest.staged("C"):
        return
    for loop in _around(nest):
        size = nest.problem.sizes[loop.axis]
        if nest.is_reduced(loop) and is_known(size) and nest.largest(loop) > 1:
            yield f"C cannot hold accumulators; stage C outside of {loop.name}"


def _stages(nest: Nest, target: Target) -> Iterator[str]:
    """A staged operand is one block of rows, one panel, or what a band of an image needs, and fits the stack."""
    for stage in nest.stages:
        where = f"stage {stage.operand} at {stage.at}"
        outside = nest.loops[: nest.depth(stage.at)]
        if (tasks := task_count(nest)) > len(outside):
            yield f"{where}: {nest.loops[tasks - 1].name} must be outside, as threads share its iterations"
        for loop in nest.loops[len(outside) :]:
            if loop.axis in nest.problem.batch and nest.problem.sizes[loop.axis] != 1:
                yield f"{where}: {loop.name} must be outside, as one of the batch is copied"
        summed = [x.name for x in outside if nest.is_reduced(x)]
        if stage.operand == "A" and summed:
            yield f"{where}: {summed[0]} must be inside, as A is copied with all its terms"
        if stage.operand == "B" and len(nest.problem.reduced) > 1:
            yield f"{where}: the weights of a convolution must be read in place; leave the step out"
        if stage.operand == "A" and nest.problem.a.windows:
            yield from _image(nest, stage, where, target)
            continue
        yield from _first_split(nest, stage.operand, where, outside)
        if stage.operand in "BC":
            yield from _panel(nest, stage, where, target)
        rows, depth = (_bound(_inside(nest, axis, stage.at)) for axis in "mk")
        elements = rows * depth if stage.operand == "A" else 0
        limit = target.machine.max_local_bytes
        if elements * nest.problem.kernel.copied_a.size > limit:
            yield f"{where}: {rows} x {depth} elements do not fit the {limit} bytes of local memory; split m"


def _panel(nest: Nest, stage: Stage, where: str, target: Target) -> Iterator[str]:
    """A staged panel of B, or accumulators, are as wide as a register tile."""
    assert nest.tile is not None
    columns = nest.tile.shape.columns(target, nest.problem.kernel.accumulator)
    inside = _inside(nest, "n", stage.at)
    if is_known(nest.problem.sizes["n"]) and (not isinstance(inside, int) or inside > columns):
        yield f"{where}: a panel has {columns} columns, not {inside}; stage it inside of the loop over panels"
    if stage.operand == "B" and inside != _inside(nest, "n"):
        yield f"{where}: the loops over n inside of it must be in the tile, which reads whole panels"


def _image(nest: Nest, stage: Stage, where: str, target: Target) -> Iterator[str]:
    """Whole rows of an image are copied."""
    if any(x.axis == "m" for x in nest.loops[: nest.depth(stage.at)]):
        yield f"{where}: loops over m must be inside, as whole rows of the image are copied"
    size, limit = _image_bytes(nest, stage), target.machine.max_local_bytes
    if size > limit:
        yield f"{where}: {size} bytes do not fit the {limit} of local memory; stage it inside of a loop over y"


def _image_bytes(nest: Nest, stage: Stage) -> int:
    """The bytes of a copied part of an image."""
    a, sizes = nest.problem.a, {**nest.problem.sizes}
    sizes["y"] = _inside(nest, "y", stage.at)
    kernel = nest.problem.kernel
    elements = -(-sizes["k"] // kernel.k_group) * kernel.k_group
    for window in a.windows.values():
        elements *= 1 + sum((sizes[x] - 1) * step for x, step in window.steps.items())
    return elements * kernel.copied_a.size


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
        if loop.of in nest.tile.loops:  # type: ignore[union-attr]
            yield f"chunk {loop.of}: it must be outside of the register tile; split n first"
        if loop.axis != "n":
            yield f"chunk {loop.of}: it must be a loop over panels of n"
        if names.index(loop.name) > names.index(loop.of):
            yield f"chunk {loop.of}: {loop.name} must be outside of {loop.of}"
        around = nest.loops[: nest.depth(loop.of) - 1]
        if any(x.axis == "n" and x.kind != "chunk" for x in around):
            yield f"chunk {loop.of}: it must be the outermost loop over n"


def _parallel(nest: Nest, target: Target) -> Iterator[str]:
    """Threads share loops around register tiles; those that share dynamic sizes are counted by blocks of rows and
    chunks of panels."""
    sizes, tile = nest.problem.sizes, nest.tile
    for loop in nest.loops:
        if tile is not None and loop.kind == "parallel" and loop.name in tile.loops:
            yield f"parallelize {loop.name}: it must be outside of the register tile; split {loop.name} first"
    if is_known(*(sizes[axis] for axis in "mnk")) or not nest.is_parallel or "y" in sizes:
        return
    parallel = [x for x in nest.loops if x.kind != "serial" and x.axis not in nest.problem.batch]
    if [(x.axis, x.kind) for x in parallel] != [("n", "chunk"), ("m", "parallel")]:
        yield "parallelize: with dynamic sizes, the loops must be those of the batch, chunks of n and one loop over m"
