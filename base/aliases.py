"""A result that lies in the memory of an input: a cache that grows, or a buffer that keeps its size."""

from __future__ import annotations

from .dims import Size, Symbol
from .records import dataclass


def free_name(length: Symbol) -> str:
    """Return the name of the number of rows that remain in a buffer after a run, given the length before the run."""
    return f"{length.name}_free"


@dataclass(frozen=True)
class Alias:
    """The numbers of an input and of the output in its memory.

    On `axis` the first `before` rows of the buffer are the input, the first `after` the output; -1: all of it is both.
    """

    input: int
    output: int
    axis: int = -1
    before: Size = 0
    after: Size = 0

    @property
    def grows(self) -> bool:
        """Return whether the output is longer than the input."""
        return self.axis >= 0
