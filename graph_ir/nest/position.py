"""The position of a statement in a nest that is being lowered: iterations of the loops around it, extents, views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from .problem import Contraction, Terms, View


@dataclass(frozen=True)
class Placed:
    """A view and how many terms of each axis lie outside of it: those of the loops around a staged buffer."""

    view: View
    outside: Mapping[str, int]


@dataclass(frozen=True)
class Chunk:
    """The iterations [begin, end) of a loop that a task runs, of those with a full tile inside.

    `has_tail`: whether the task runs the last iteration, whose tile is not full; None where it always does.
    """

    begin: Expr
    end: Expr
    has_tail: Expr | None


@dataclass(frozen=True)
class Position:
    """`extents`: the size of the current tile of each axis, a number or an expression. `is_first`, `is_last`: whether
    the reduced loops around the statement are in their first and last iteration."""

    terms: Mapping[str, Terms]
    extents: Mapping[str, Any]
    views: Mapping[str, Placed]
    chunks: Mapping[str, Chunk]
    is_first: bool = True
    is_last: bool = True

    @classmethod
    def outermost(cls, problem: Contraction) -> Position:
        """Return the position outside of all loops."""
        sizes = problem.sizes
        views = {name: Placed(problem.view(name), dict.fromkeys(sizes, 0)) for name in "ABC"}
        return cls(dict.fromkeys(sizes, ()), sizes, views, {})

    def enter(self, axis: str, iteration: Expr, step: Any, extent: Any) -> Position:
        """Return the position inside iteration `iteration` of a loop in steps of `step`, whose tile is `extent`."""
        own = self.terms[axis] if iteration == t.ZERO else (*self.terms[axis], (iteration, step))
        terms = {**self.terms, axis: own}
        return replace(self, terms=terms, extents={**self.extents, axis: extent})

    def reduced(self, is_first: bool, is_last: bool) -> Position:
        """Return the position in an iteration of a reduced loop that is its first or last."""
        first, last = self.is_first and is_first, self.is_last and is_last
        return replace(self, is_first=first, is_last=last)

    def chunked(self, loop: str, chunk: Chunk) -> Position:
        """Return the position inside a chunk of the iterations of a loop."""
        return replace(self, chunks={**self.chunks, loop: chunk})

    def staged(self, operand: str, view: View) -> Position:
        """Return the position where an operand is read from a buffer filled here."""
        outside = {axis: len(terms) for axis, terms in self.terms.items()}
        return replace(self, views={**self.views, operand: Placed(view, outside)})

    def view(self, operand: str) -> View:
        """Return where an operand lies now."""
        return self.views[operand].view

    def offset(self, operand: str) -> Expr:
        """Return the offset of the first element of the current tile of an operand."""
        placed = self.views[operand]
        inside = {axis: terms[placed.outside[axis] :] for axis, terms in self.terms.items()}
        return placed.view.offset(inside)

    def here(self, operand: str) -> View:
        """Return the view of an operand from the current tile on."""
        return replace(self.view(operand), base=self.offset(operand))

    def iteration(self, axis: str) -> Expr:
        """Return the iteration of the innermost loop around over an axis."""
        return self.terms[axis][-1][0] if self.terms[axis] else t.ZERO

    def start(self, axis: str) -> Expr:
        """Return the position of the current tile on an axis, in elements."""
        total: Expr = t.ZERO
        for iteration, step in self.terms[axis]:
            total = total + iteration * step
        return total
