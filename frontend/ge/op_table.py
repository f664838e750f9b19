"""Every kind of node that is read, control flow aside, and every op that is written: the table, functions by family."""

from __future__ import annotations

from ..correspondence.reading import Read, readers
from ..correspondence.tables import TABLE
from ..correspondence.writing import Write, writers
from . import (
    contraction,
    elementwise,
    export_movement,
    export_normalize,
    export_windows,
    indexing,
    movement,
    normalize,
    slicing,
    windows,
)

_PAIRS = {**elementwise.PAIRS, **contraction.PAIRS}

HANDLERS: dict[str, Read] = {
    **readers(TABLE, "ge", _PAIRS),
    **elementwise.HANDLERS,
    **contraction.HANDLERS,
    **normalize.HANDLERS,
    **windows.HANDLERS,
    **indexing.HANDLERS,
    **movement.HANDLERS,
    **slicing.HANDLERS,
}
"""GE op type to its importer."""

WRITERS: dict[str, Write] = {
    **writers(TABLE, "ge", _PAIRS),
    **export_normalize.EMITTERS,
    **export_windows.EMITTERS,
    **export_movement.EMITTERS,
}
"""Our op to what writes it."""
