"""Every kind of operator that is imported; one table per family."""

from __future__ import annotations

from . import (
    activation,
    arithmetic,
    attention,
    linear,
    movement,
    normalize,
    reduce,
    slicing,
    structure,
)
from .scope import Handler

HANDLERS: dict[str, Handler] = {
    **activation.HANDLERS,
    **arithmetic.HANDLERS,
    **attention.HANDLERS,
    **linear.HANDLERS,
    **movement.HANDLERS,
    **normalize.HANDLERS,
    **reduce.HANDLERS,
    **slicing.HANDLERS,
    **structure.HANDLERS,
}
"""PNNX operator type to its importer; pnnx.Input and pnnx.Output are the importer's own."""
