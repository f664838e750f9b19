"""Scheduling operations that are composed of the transformations: ordinary functions of a script."""

from __future__ import annotations

from .script import LoopRef, Name, Script


def innermost(script: Script, *loops: Name) -> None:
    """Move loops to the inside, in this order."""
    names = [str(loop) for loop in loops]
    others = [loop for loop in script.loops if loop.name not in names]
    script.reorder(*others, *names)


def blocks(script: Script, *sizes: tuple[Name, int]) -> tuple[LoopRef, ...]:
    """Split loops into blocks of some sizes, in the order given; return the loops over the blocks."""
    split = [script.loop(str(loop)) for loop, _ in sizes]
    for loop, size in sizes:
        script.split(loop, size)
    return tuple(loop.outer for loop in split)


def matmul_tiles(script: Script, tile: str, columns: int, rows: int, depth: int = 0) -> None:
    """Schedule a matmul as register tiles in panels of `columns`, blocks of `rows` and, if not 0, of `depth`."""
    m, n, k = (script.loop(axis) for axis in "mnk")
    blocks(script, (n, columns), (m, rows), *([(k, depth)] if depth else []))
    outer = [m.outer, k.outer, n.outer] if depth else [m.outer, n.outer]
    batch = [loop for loop in script.loops if loop.axis not in ("m", "n", "k")]
    script.reorder(*batch, *outer, m.inner, n.inner, k.inner)
    if script.nest.problem.b.blocks:
        script.stage("B", "root", "panels")
    script.tensorize(tile, m.inner, n.inner, k.inner)
