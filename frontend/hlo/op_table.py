"""Which function imports which opcode."""

from __future__ import annotations

from .bits import BITS
from .contraction import CONTRACTION
from .control import CONTROL
from .convolution import CONVOLUTION
from .elementwise import ELEMENTWISE
from .indexing import INDEXING
from .movement import MOVEMENT
from .normalization import NORMALIZATION
from .random_bits import RANDOM
from .reduction import REDUCTION
from .scattering import SCATTER
from .scope import Handler

HANDLERS: dict[str, Handler] = {
    **ELEMENTWISE,
    **MOVEMENT,
    **CONTRACTION,
    **CONVOLUTION,
    **REDUCTION,
    **INDEXING,
    **SCATTER,
    **BITS,
    **RANDOM,
    **NORMALIZATION,
    **CONTROL,
}
"""Opcode to handler; parameter and constant are the importer's own."""

MAPPABLE = frozenset(
    (*ELEMENTWISE, *BITS, "broadcast", "reshape", "transpose", "bitcast", "tuple",
     "get-tuple-element", "call", "fusion", "copy", "opt-barrier")
)  # fmt: skip
"""Opcodes a scalar computation may hold when it is applied to every element of arrays."""
