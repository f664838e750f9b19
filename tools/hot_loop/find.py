"""The hot loop of a kernel's assembly: the innermost loop that accumulates most, or has most vector instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...base.records import dataclass
from ...targets.isa import Target
from ...targets.ports import ASSEMBLY, Step


@dataclass(frozen=True)
class Loop:
    """The lines of a loop, and its instructions; both empty where there is none."""

    lines: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def multiply_adds(self) -> int:
        """Return the multiply-adds of one iteration."""
        return sum(step.multiply_adds for step in self.steps)

    @property
    def accumulated(self) -> int:
        """Return the multiply-adds whose sums go from one iteration to the next: not those of polynomials."""
        carried, written = set(), set[str]()
        for step in self.steps:
            carried |= set(step.reads) - written
            written.update(step.writes)
        return sum(x.multiply_adds for x in self.steps if carried.intersection(x.writes))

    @property
    def vectors(self) -> int:
        """Return the number of vector instructions."""
        return sum(step.bits > 0 for step in self.steps)

    @property
    def loads(self) -> int:
        """Return the number of loads."""
        return sum(step.loads for step in self.steps)

    @property
    def stores(self) -> int:
        """Return the number of stores."""
        return sum(step.stores for step in self.steps)

    @property
    def spills(self) -> int:
        """Return the vectors that are stored to the stack."""
        return sum(step.stores and step.spill for step in self.steps)

    @property
    def reloads(self) -> int:
        """Return the vectors that are loaded from the stack."""
        return sum(step.loads and step.spill for step in self.steps)


def hot_loop(assembly: str, target: Target) -> Loop:
    """Return the hot loop of a text that LLVM wrote for a target; an empty one if there is none, or no reader."""
    read = ASSEMBLY.get(target.isa)
    if read is None:
        return Loop()
    loops = [
        Loop(lines, tuple(step for line in lines if (step := read(line)) is not None))
        for lines in _loops(assembly.splitlines())
    ]
    return max(loops, key=_weight, default=Loop())


def _weight(loop: Loop) -> tuple[int, ...]:
    return loop.accumulated, loop.multiply_adds, loop.vectors, len(loop.steps)


_LABEL = re.compile(r"^(\.L\w+):")
_JUMP = re.compile(r"^\s+j\w+\s+(\.L\w+)")


def _loops(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Runs of lines from a label to the first jump back to it, with no other label inside."""
    start: tuple[str, int] | None = None
    for number, line in enumerate(lines):
        label, jump = _LABEL.match(line), _JUMP.match(line)
        if label:
            start = (label[1], number)
        elif jump and start and jump[1] == start[0]:
            yield tuple(lines[start[1] : number + 1])
            start = None
