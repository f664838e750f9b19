"""Every kind of operator that is imported; one table per family."""

from __future__ import annotations

from . import (
    activation,
    arithmetic,
    assignment,
    attention,
    composite,
    convolution,
    indexing,
    linear,
    movement,
    multihead,
    normalize,
    ordering,
    pool,
    recurrent,
    reduce,
    resize,
    slicing,
    structure,
)
from .scope import Handler

HANDLERS: dict[str, Handler] = {
    **activation.HANDLERS,
    **arithmetic.HANDLERS,
    **assignment.HANDLERS,
    **attention.HANDLERS,
    **composite.HANDLERS,
    **convolution.HANDLERS,
    **indexing.HANDLERS,
    **linear.HANDLERS,
    **movement.HANDLERS,
    **multihead.HANDLERS,
    **normalize.HANDLERS,
    **ordering.HANDLERS,
    **pool.HANDLERS,
    **recurrent.HANDLERS,
    **reduce.HANDLERS,
    **resize.HANDLERS,
    **slicing.HANDLERS,
    **structure.HANDLERS,
}
"""PNNX operator type to its importer; pnnx.Input and pnnx.Output are the importer's own."""
