"""Typed notes on graphs: what a reader or a pass found out, for those who come after; no part of a graph's text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast

from ...base.errors import InternalError
from ...base.records import dataclass
from .attributes import INTERNAL
from .graph import Graph

T = TypeVar("T")


@dataclass(frozen=True)
class Note(Generic[T]):
    """A note of type `T` called `name`; `empty` makes the one of a graph that has none. Copies of a graph share it."""

    name: str
    empty: Callable[[], T] | None = None

    @property
    def key(self) -> str:
        """The attribute under which a graph stores the note."""
        return INTERNAL + self.name

    def of(self, graph: Graph) -> T:
        """The graph's note. Raise InternalError if it has none and none can be made."""
        if self.key not in graph.attrs:
            if self.empty is None:
                raise InternalError(f"graph '{graph.name}' has no {self.name}")
            graph.attrs[self.key] = self.empty()
        return cast(T, graph.attrs[self.key])

    def set(self, graph: Graph, value: T) -> None:
        """Replace the graph's note."""
        graph.attrs[self.key] = value

    def is_on(self, graph: Graph) -> bool:
        """Return whether the graph has one."""
        return self.key in graph.attrs


MODEL_VALUES: Note[dict[str, str]] = Note("values", dict)
"""The op that computes each value of the model file, by the value's name, where the names differ."""
