"""Number of vectors that a loop computes at once.

The operations of such a loop have as many lanes as several registers; LLVM splits each into one instruction
per register.
"""

from __future__ import annotations

from ..base.dtypes import F32, DType
from ..targets.isa import Target
from .intrinsics import CHAINS
from .nodes import Call
from .visitor import Node, walk

PACKED = 4  # vectors of 32-bit numbers that make one of bytes
CHAINED = 4  # vectors of a function, each operation of which waits four cycles for the one before
MAX_CHAINS = 2  # more of them in one loop would leave too few registers

SCALED_EXPONENTIALS = frozenset(("exp", "exp_nonpositive", "exp_weight"))
"""With an instruction that multiplies by powers of two, short enough alone: two or four take 1.03 of the time."""


def packed_together(code: Node, target: Target) -> int:
    """Return how many vectors of 32-bit numbers to compute at once: several if `code` quantizes them to bytes.

    Instructions that pack two vectors into one take as long as those for one; an ISA with masks narrows one by itself.
    """
    is_packed = any(
        isinstance(e, Call) and e.name == "quantize" and packs_vectors(e.dtype, target)
        for e in walk(code)
    )
    return PACKED if is_packed else 1


def packs_vectors(dtype: DType, target: Target) -> bool:
    """Return whether results of a type are best made of several vectors of 32-bit numbers."""
    return dtype.bits == 8 and not target.table.has_masks


def chained_together(code: Node, target: Target) -> int:
    """The same of code with functions: several, unless there are too many functions for the registers."""
    calls = [e for e in walk(code) if isinstance(e, Call) and e.name in CHAINS and e.dtype == F32]
    if target.table.has_masks and all(e.name in SCALED_EXPONENTIALS for e in calls):
        return 1
    return CHAINED if 0 < len(calls) <= MAX_CHAINS else 1


def lanes_together(code: Node, target: Target, lanes: int, extent: int) -> int:
    """The lanes to compute at once, of `lanes` in a vector and `extent` in all: a power of two."""
    most = 1 << extent.bit_length() - 1
    vectors = max(packed_together(code, target), chained_together(code, target))
    return max(lanes, min(lanes * vectors, most))
