"""Every kind of node that is read, control flow aside, and every op that is written: the table, functions by family."""

from __future__ import annotations

from ..correspondence.gathering import op_table
from ..correspondence.tables import TABLE
from . import (  # noqa: F401
    contraction,
    elementwise,
    export_control,
    export_normalize,
    export_sources,
    export_windows,
    indexing,
    movement,
    normalize,
    quantize,
    slicing,
    windows,
)

HANDLERS, WRITERS = op_table(TABLE, "ge", globals())
"""GE op type to its importer, and op name to its writer."""
