"""Every kind of node that is read, control flow aside, and every op that is written: the table, functions by family."""

from __future__ import annotations

from typing import Any

from ..correspondence.reading import Read, readers
from ..correspondence.tables import TABLE
from ..correspondence.writing import Write, writers
from . import (
    contraction,
    elementwise,
    export_normalize,
    export_sources,
    export_windows,
    indexing,
    movement,
    normalize,
    slicing,
    windows,
)

_READ: tuple[Any, ...] = (contraction, elementwise, indexing, movement, normalize, slicing, windows)
_PAIRS = {key: pair for family in _READ for key, pair in getattr(family, "PAIRS", {}).items()}

HANDLERS: dict[str, Read] = {
    **readers(TABLE, "ge", _PAIRS),
    **{key: run for family in _READ for key, run in getattr(family, "HANDLERS", {}).items()},
}
"""GE op type to its importer."""

WRITERS: dict[str, Write] = {
    **writers(TABLE, "ge", _PAIRS),
    **export_normalize.EMITTERS,
    **export_sources.EMITTERS,
    **export_windows.EMITTERS,
}
"""Writers by op name."""
