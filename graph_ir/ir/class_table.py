"""A table of values per op class, inherited by subclasses: higher floors use it to attach data to ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from .op import Op

Value = TypeVar("Value")


class ClassTable(Generic[Value]):
    """Op class -> value. A class without one has that of its nearest base (in the order of `__mro__`)."""

    def __init__(self, entries: Mapping[type[Op], Value]) -> None:
        self._entries = dict(entries)

    def register(self, cls: type[Op]) -> Callable[[Value], Value]:
        """Decorator: set the value of an op class and its subclasses; replaces an existing one."""

        def decorate(value: Value) -> Value:
            self._entries[cls] = value
            return value

        return decorate

    def find(self, op: Op) -> Value | None:
        """The value of an op's class; None if neither it nor a base has one."""
        return next((self._entries[cls] for cls in type(op).__mro__ if cls in self._entries), None)

    def items(self) -> Iterator[tuple[type[Op], Value]]:
        """Iterate over the classes with an explicit value, with these values."""
        return iter(self._entries.items())
