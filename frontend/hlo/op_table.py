"""Which function imports which opcode: the rows of the table, and functions by family."""

from __future__ import annotations

from ..correspondence.gathering import op_table
from ..correspondence.tables import TABLE
from . import (  # noqa: F401
    bits,
    contraction,
    control,
    convolution,
    elementwise,
    indexing,
    movement,
    normalization,
    random_bits,
    reduction,
    scattering,
    sorting,
)
from .opcodes import ELEMENTWISE
from .scope import Handler

HANDLERS: dict[str, Handler] = op_table(TABLE, "hlo", globals())[0]
"""Opcode to handler; parameter and constant are the importer's own."""

MAPPED: dict[str, Handler] = {
    **{name: HANDLERS[name] for name in (*ELEMENTWISE, *elementwise.HANDLERS, *bits.HANDLERS)},
    **control.MAPPED,
    **dict.fromkeys(("broadcast", "reshape", "transpose"), lambda step: step.tensor(0)),
    "bitcast": bits.same_width,
}
"""Opcodes a scalar computation may hold when it is applied to every element of arrays; they do not see their sizes."""
