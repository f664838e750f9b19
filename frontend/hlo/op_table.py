"""Importers by opcode: the rows of the table, and functions by family."""

from __future__ import annotations

from ...graph_ir.ir.registry import lookup
from ...graph_ir.ops.elementwise import Elementwise
from ..correspondence.gathering import op_table
from ..correspondence.tables import TABLE
from ..correspondence.writing import Write
from . import (  # noqa: F401
    asynchronous,
    bits,
    collectives,
    complex_numbers,
    contraction,
    control,
    convolution,
    custom_calls,
    dynamic_sizes,
    elementwise,
    fourier,
    indexing,
    linear_algebra,
    movement,
    normalization,
    random_bits,
    reduction,
    scanning,
    scattering,
    sorting,
    windows,
)
from .formulas import by_row_or_formula, write_formula
from .opcodes import ELEMENTWISE
from .scope import Handler

HANDLERS: dict[str, Handler]
HANDLERS, _WRITERS = op_table(TABLE, "hlo", globals())
"""Opcode to handler; parameter and constant are the importer's own."""

WRITERS: dict[str, Write] = {
    name: by_row_or_formula(write) if issubclass(lookup(name), Elementwise) else write
    for name, write in _WRITERS.items()
} | {"": write_formula}
"""Op to writer; "" stands for all others, which have a formula or cannot be written."""

MAPPED: dict[str, Handler] = {
    **{
        name: HANDLERS[name]
        for family in (ELEMENTWISE, elementwise.HANDLERS, bits.HANDLERS, complex_numbers.HANDLERS)
        for name in family
    },
    **control.MAPPED,
    **dict.fromkeys(("broadcast", "reshape", "transpose"), lambda step: step.tensor(0)),
    "bitcast": bits.same_width,
}
"""Opcodes a scalar computation may hold when it is applied to every element of arrays; they do not see their sizes."""
