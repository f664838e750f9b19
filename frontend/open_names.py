"""Names of the sizes that a file leaves open."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, count

from ..base.dims import Size, Symbol, size, symbol_name
from .shape_spec import open_name


class OpenNames:
    """The sizes that stay open, called as in the file where that is an identifier; `taken` are the caller's names."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._sizes: dict[str, Size] = {}

    def size(self, text: str, owner: str, axis: int) -> Size:
        """The size that a file calls `text`, or does not name, on an axis of the input `owner`."""
        key = text or f"{owner} {axis}"
        if key not in self._sizes:
            wish = symbol_name(text) if text else open_name(owner, axis)
            numbered = (f"{wish}_{number}" for number in count(1))
            name = next(name for name in chain([wish], numbered) if name not in self._taken)
            self._taken.add(name)
            self._sizes[key] = size(Symbol(name))
        return self._sizes[key]
