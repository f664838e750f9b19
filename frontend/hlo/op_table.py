"""Which function imports which opcode."""

from __future__ import annotations

from .contraction import CONTRACTION
from .control import CONTROL
from .elementwise import ELEMENTWISE
from .indexing import INDEXING
from .movement import MOVEMENT
from .reduction import REDUCTION
from .scope import Handler

HANDLERS: dict[str, Handler] = {
    **ELEMENTWISE,
    **MOVEMENT,
    **CONTRACTION,
    **REDUCTION,
    **INDEXING,
    **CONTROL,
}
"""Opcode to handler; parameter and constant are the importer's own."""

MAPPABLE = frozenset(
    (*ELEMENTWISE, "broadcast", "reshape", "transpose", "bitcast", "bitcast-convert", "tuple",
     "get-tuple-element", "call", "fusion", "copy", "opt-barrier")
)  # fmt: skip
"""Opcodes a scalar computation may hold when it is applied to every element of arrays."""
