"""Every kind of node that is imported, control flow aside; one table per family."""

from __future__ import annotations

from . import contraction, elementwise, movement, slicing
from .scope import Handler

HANDLERS: dict[str, Handler] = {
    **elementwise.HANDLERS,
    **contraction.HANDLERS,
    **movement.HANDLERS,
    **slicing.HANDLERS,
}
"""GE op type to its importer."""
