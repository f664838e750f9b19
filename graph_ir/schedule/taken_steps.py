"""The steps of the nests inside of a kernel, of which a reader may take the first ones only, to see what each does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class TakenSteps:
    """The steps of each nest in the order the nests are made, of which the first `limit` are taken."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nests: dict[str, list[str]] = {}

    def of(self, name: str, steps: list[str]) -> list[str]:
        """Return those steps of a nest that are taken."""
        self.nests.setdefault(name, steps)
        names = list(self.nests)
        before = sum(len(self.nests[other]) for other in names[: names.index(name)])
        return steps[: max(self.limit - before, 0)]


_TAKEN: ContextVar[TakenSteps | None] = ContextVar("taken", default=None)


@contextmanager
def taking(limit: int) -> Iterator[TakenSteps]:
    """Take only the first steps of the nests that are made meanwhile; without the last one, they are plain loops."""
    taken = TakenSteps(limit)
    token = _TAKEN.set(taken)
    try:
        yield taken
    finally:
        _TAKEN.reset(token)


def steps_to_take(name: str, steps: list[str]) -> list[str]:
    """Return the steps of the nest `name` of a kernel: all, unless a reader takes fewer."""
    taken = _TAKEN.get()
    return taken.of(name, steps) if taken else steps
