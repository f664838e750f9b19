"""Schedules as Python functions: the transformations as methods of a nest, and references to its loops.

    def mine(nest):
        m, n = nest.loop("m"), nest.loop("n")
        nest.split(n, 24).split(m, 20)
        nest.reorder(m.outer, n.outer, m.inner, n.inner, "k")
        nest.stage("B", "root", "panels").tensorize("4x3", m.inner, n.inner, "k")

Every method appends one step to the text of the schedule, so that a function is as safe as the text, and its result is
stored, printed and tuned as any other. An operation of your own is a function that calls these methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.dims import Size
from ...base.errors import UserError
from ...base.records import dataclass
from .nest import Nest
from .schedule_text import apply_step


@dataclass(frozen=True)
class LoopRef:
    """A reference to a loop of a script, which stays valid when the loop is split, chunked or moved.

    After a split it stands for the outermost part; `parts` has all.
    """

    script: Script
    first_name: str

    @property
    def name(self) -> str:
        """Return the name that the loop has now."""
        return self.parts[0].first_name if self.is_split else self.first_name

    @property
    def is_split(self) -> bool:
        """Return whether the loop was split since the reference was made."""
        return self.first_name in self.script.splits

    @property
    def parts(self) -> tuple[LoopRef, ...]:
        """Return the loops that it was split into, outermost first, or itself."""
        if not self.is_split:
            return (self,)
        names = self.script.splits[self.first_name]
        return tuple(part for name in names for part in LoopRef(self.script, name).parts)

    @property
    def outer(self) -> LoopRef:
        """Return the outermost part."""
        return self.parts[0]

    @property
    def inner(self) -> LoopRef:
        """Return the innermost part."""
        return self.parts[-1]

    @property
    def axis(self) -> str:
        """Return the axis that the loop runs over."""
        return self.script.nest.loop(self.name).axis

    @property
    def extent(self) -> Size:
        """Return the most iterations of the loop, or the size of its axis if that is dynamic."""
        nest = self.script.nest
        size = nest.problem.sizes[self.axis]
        return nest.largest(nest.loop(self.name)) if isinstance(size, int) else size

    def __str__(self) -> str:
        return self.name


Name = str | LoopRef
"""A loop by the name it has now, or by a reference."""


class Script:
    """A nest, and the steps that have transformed it. Every method returns the script, UserError where it does not
    apply."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.steps: list[str] = []
        self.splits: dict[str, tuple[str, ...]] = {}

    @property
    def text(self) -> str:
        """Return the steps as text, which `explain` prints and `schedules=` takes."""
        return "; ".join(self.steps)

    @property
    def loops(self) -> tuple[LoopRef, ...]:
        """Return the loops, outermost first."""
        return tuple(LoopRef(self, loop.name) for loop in self.nest.loops)

    def loop(self, name: str) -> LoopRef:
        """Return a reference to a loop, also to one that was split. Raise UserError if there is none."""
        found = LoopRef(self, name)
        self.nest.loop(found.name)
        return found

    def split(self, loop: Name, *factors: int, even: bool = False) -> Script:
        """Split a loop into loops over ever smaller tiles."""
        return self._step("split", loop, *["even"] * even, *factors)

    def tile(self, *loops: Name | int) -> Script:
        """Split loops by as many sizes, and put their inner parts together: `nest.tile("m", "n", 20, 24)`."""
        return self._step("tile", *loops)

    def chunk(self, loop: Name, chunks: int = 0) -> Script:
        """Cut the iterations of a loop into contiguous chunks; as many as threads if 0."""
        return self._step("chunk", loop, *[chunks] * bool(chunks))

    def reorder(self, *loops: Name) -> Script:
        """Put the loops into this order, outermost first; loops that are not named stay where they are."""
        names = [str(loop) for loop in loops]
        order = iter(names)
        whole = [next(order) if x.name in names else x.name for x in self.nest.loops]
        return self._step("reorder", *whole, *order)

    def stage(self, operand: str, at: Name, name: str, above: int = 0) -> Script:
        """Copy what the loops inside `at` touch of an operand to a buffer; `above`: only if more rows share it."""
        return self._step("stage", operand, "at", at, "as", name, *["above", above] * bool(above))

    def tensorize(
        self, tile: str, *loops: Name, instruction: str = "", exact: bool = False
    ) -> Script:
        """Run the innermost loops as register tiles such as `8x3`, by `instruction` if it is not fma."""
        words = [instruction] * bool(instruction) + ["over", *map(str, loops)] + ["exact"] * exact
        return self._step("tensorize", tile, *words)

    def prefetch(self, operand: str, rows: int) -> Script:
        """Prefetch the next panel meanwhile, in tiles of at least `rows` rows."""
        return self._step("prefetch", operand, rows)

    def parallelize(self, *loops: Name) -> Script:
        """Let threads share the iterations of the outermost loops."""
        return self._step("parallelize", *loops)

    def apply(self, operation: Operation, *arguments: Any, **options: Any) -> Script:
        """Call an operation of your own on the script, for chains of methods."""
        operation(self, *arguments, **options)
        return self

    def _step(self, *words: Any) -> Script:
        step, before = " ".join(map(str, words)), [loop.name for loop in self.nest.loops]
        self.nest = apply_step(self.nest, step)
        made = [loop.name for loop in self.nest.loops if loop.name not in before]
        for name in (x for x in before if x not in [loop.name for loop in self.nest.loops]):
            self.splits[name] = tuple(x for x in made if x[:-1] == name)
        self.steps.append(step)
        return self

    def _repr_html_(self) -> str:
        """Return the steps as a list, for notebooks."""
        return "<ol>" + "".join(f"<li><code>{step}</code></li>" for step in self.steps) + "</ol>"


Operation = Callable[..., object]
"""A function whose first argument is a script, which it changes."""


def steps_by(operation: Operation, nest: Nest, who: str) -> str:
    """Return the text of the schedule that a function makes of a nest. UserError naming `who` if it makes none."""
    if not callable(operation):
        raise UserError(
            f"schedule of '{who}': it must be a text or a function, got {type(operation).__name__}"
        )
    script = Script(nest)
    operation(script)
    if not script.steps:
        raise UserError(
            f"schedule of '{who}': the function must transform the nest that it is called with"
        )
    return script.text
