"""Every kind of operator that is imported; one table per family."""

from __future__ import annotations

from collections.abc import Iterator

from ..correspondence.reading import readers
from ..correspondence.tables import TABLE
from . import (
    activation,
    arithmetic,
    assignment,
    attention,
    composite,
    convolution,
    elementwise,
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

PAIRS = {**activation.PAIRS, **elementwise.PAIRS, **reduce.PAIRS}
"""Functions that read and write table cells a row cannot express."""


def _by_table() -> Iterator[tuple[str, Handler]]:
    """The operators of the table; operands may be given by position in the order of the cell."""
    rows = TABLE.reads("pnnx")
    for type_name, read in readers(TABLE, "pnnx", PAIRS).items():
        slots = (formal.name for formal in rows[type_name][0][1].formals)
        yield type_name, Handler(read, tuple(slots))


HANDLERS: dict[str, Handler] = {
    **dict(_by_table()),
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
