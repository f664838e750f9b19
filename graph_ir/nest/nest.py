"""A scheduled loop nest: perfectly nested loops around C += A * B, and what a schedule has decided so far.

A schedule edits this value; `lower` builds Tensor IR from it once. The loops of an axis have falling steps:
`split n 48` makes n0, which steps by 48, and n1, which steps by 1; the last iteration of n0 has fewer iterations of n1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from ...base.dims import Size
from ...base.errors import UserError
from ...base.records import dataclass
from ...targets.isa import GemmTile
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from .problem import Contraction

LoopKind = Literal["serial", "parallel", "chunk"]


@dataclass(frozen=True)
class Loop:
    """A loop over an axis in steps of `step` elements.

    `even`: `step` is a maximum, and the iterations are made equally long. Of kind "chunk": a loop over `chunks`
    contiguous parts of the iterations of the loop `of`, 0 if their number is decided when the nest runs.
    """

    name: str
    axis: str
    step: int = 1
    kind: LoopKind = "serial"
    even: bool = False
    of: str = ""
    chunks: int = 1


@dataclass(frozen=True)
class Stage:
    """A local buffer for what the loops inside `at` touch of an operand; B only if more than `above` rows share it.

    `layout`: the dimensions of the buffer, outermost first; () for the usual one.
    """

    operand: str
    at: str
    name: str
    above: int = 0
    layout: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tile:
    """The innermost loops as register tiles: (rows, columns, depth), and a batch of them with four loops.

    `exact`: the height is that of `shape` for panels of any width, which fixes how sums are split. `any_rows`: sums are
    split as for any number of rows, and dynamic rows after the full tiles are one tile where registers have room.
    """

    shape: GemmTile
    loops: tuple[str, ...]
    exact: bool = False
    any_rows: bool = False


@dataclass(frozen=True)
class Sharing:
    """The threads that share a nest with dynamic sizes, from `least` multiply-adds on."""

    threads: int = 1
    least: int = 0

    def pays(self, multiply_adds: Size) -> Expr:
        """Return whether there is work for several threads."""
        return t.as_expr(multiply_adds) >= self.least


@dataclass(frozen=True)
class Nest:
    """Loops from the outermost to the innermost, staged operands, the register tile, and the rows of a tile from which
    on the next panel of B is prefetched (0: never). `otherwise`: its only size, and the nest of others."""

    problem: Contraction
    loops: tuple[Loop, ...]
    stages: tuple[Stage, ...] = ()
    tile: Tile | None = None
    prefetch: int = 0
    sharing: Sharing = Sharing()
    is_parallel: bool = False
    otherwise: Case | None = None

    @property
    def any_size(self) -> Nest:
        """Return the nest of sizes that no step has specialized."""
        return self.otherwise.nest.any_size if self.otherwise else self

    @property
    def cases(self) -> Iterator[tuple[str, int]]:
        """Yield (axis, size) of this nest and those it falls back to, but of the one for any size."""
        if self.otherwise:
            yield self.otherwise.axis, self.otherwise.size
            yield from self.otherwise.nest.cases

    def loop(self, name: str) -> Loop:
        """Return a loop by name. Raise UserError if there is none."""
        for loop in self.loops:
            if loop.name == name:
                return loop
        names = ", ".join(loop.name for loop in self.loops)
        raise UserError(
            f"schedule: there is no loop '{name}', only {names}; it must be one of these"
        )

    def depth(self, name: str) -> int:
        """Return how many loops enclose the body of a loop; 0 for "root"."""
        return 0 if name == "root" else self.loops.index(self.loop(name)) + 1

    def staged(self, operand: str) -> Stage | None:
        """Return the stage of an operand, if it has one."""
        return next((stage for stage in self.stages if stage.operand == operand), None)

    def is_reduced(self, loop: Loop) -> bool:
        """Return whether the iterations of a loop add to the same elements of C."""
        return loop.axis in self.problem.reduced

    def largest(self, loop: Loop) -> int:
        """Return the most iterations of a loop over an axis of known size."""
        around = [x.step for x in self.loops if x.axis == loop.axis and x.step > loop.step]
        return -(-min([self.problem.sizes[loop.axis], *around]) // loop.step)

    def changed(self, **changes: Any) -> Nest:
        """Return the nest with some fields replaced."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Case:
    """The size of an axis that a nest is specialized for, and the nest of other sizes."""

    axis: str
    size: int
    nest: Nest


def contraction(problem: Contraction) -> Nest:
    """Return the naive nest, which is the definition of the result: free loops outside, reduced loops inside."""
    return Nest(problem, tuple(Loop(axis, axis) for axis in problem.sizes))
