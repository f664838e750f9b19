"""Names of the dynamic sizes of a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain, count

from ..base.dims import Size, Symbol, size, substitute
from ..base.size_text import parse_size
from ..base.symbols import symbol_name
from .shape_spec import dynamic_name

_RAW = re.compile(r"[su][0-9]+|unk__[0-9]+")
"""Names that exporters make up: torch.export's symbols, and those of ONNX's shape inference."""


_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def is_plain_name(text: str) -> bool:
    """Return whether a file calls a size by a name, not by an expression such as `past + 1`."""
    return _NAME.fullmatch(text) is not None


def sum_of(text: str, known: Mapping[str, Size]) -> Size | None:
    """Return the size that a file writes as a polynomial of known sizes; None for any other text."""
    names = {name: Symbol(name) for name in _NAME.findall(text)}
    if not names or not names.keys() <= known.keys():
        return None
    try:
        return substitute(parse_size(text, names), known)
    except (ValueError, KeyError):
        return None


class DynamicNames:
    """The sizes that stay dynamic, called as in the file, or after their input and axis; `taken` are the
    caller's names.

    Names that an exporter numbered say nothing: the first input and axis that have them do.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._sizes: dict[str, Size] = {}

    def size(self, text: str, owner: str, axis: int) -> Size:
        """The size that a file calls `text`, or does not name, on an axis of the input `owner`."""
        key = text or f"{owner} {axis}"
        if key not in self._sizes:
            is_said = text and not _RAW.fullmatch(text)
            wish = symbol_name(text) if is_said else dynamic_name(owner, axis)
            numbered = (f"{wish}_{number}" for number in count(1))
            name = next(name for name in chain([wish], numbered) if name not in self._taken)
            self._taken.add(name)
            self._sizes[key] = size(Symbol(name))
        return self._sizes[key]
