"""Every kind of node that is imported, control flow aside; one table per family."""

from __future__ import annotations

from . import contraction, elementwise, indexing, movement, normalize, slicing, windows
from .scope import Handler

HANDLERS: dict[str, Handler] = {
    **elementwise.HANDLERS,
    **contraction.HANDLERS,
    **normalize.HANDLERS,
    **windows.HANDLERS,
    **indexing.HANDLERS,
    **movement.HANDLERS,
    **slicing.HANDLERS,
}
"""GE op type to its importer."""
