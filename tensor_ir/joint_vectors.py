"""Number of vectors that a loop computes at once.

The operations of such a loop have as many lanes as several registers; LLVM splits each into one instruction
per register.
"""

from __future__ import annotations

from ..base.dtypes import F32, DType
from ..targets.isa import Target
from .intrinsics import CHAINS
from .nodes import Call, Load
from .visitor import Node, walk

PACKED = 4  # vectors of 32-bit numbers that make one of bytes
CHAINED = 4  # vectors of a function, each operation of which waits four cycles for the one before
MAX_CHAINS = 2  # more of them in one loop would leave too few registers

SCALED_EXPONENTIALS = frozenset(("exp", "exp_nonpositive", "exp_weight"))
"""With an instruction that multiplies by powers of two, short enough alone: two or four take 1.03 of the time."""


FEW_REGISTERS = 16

ORDERED = frozenset(("exp", "exp_nonpositive", "exp_weight", "erf", "gelu", "softplus", "log"))
"""Functions of several vectors that few registers hold in the order written. LLVM's scheduler begins each early and
spills: 1.03 to 1.15 of the time on Zen 3. It gains 5 % with tanh and sigmoid, whose divisions begin earlier."""


def keeps_order(code: Node, target: Target) -> bool:
    """Return whether LLVM should keep the order of the instructions of loops: all their functions are `ORDERED`."""
    table, calls = target.table, {e.name for e in _functions(code)}
    return bool(calls and table.in_order) and calls <= ORDERED and table.registers <= FEW_REGISTERS


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
    """The same of code with functions, or of multiply-adds that begin with one load: several, unless there are too many
    functions for the registers."""
    calls = _functions(code)
    if not calls:
        fused = sum(isinstance(e, Call) and e.name == "fma" for e in walk(code))
        return CHAINED if fused > 1 == sum(isinstance(e, Load) for e in walk(code)) else 1
    if target.table.has_masks and all(e.name in SCALED_EXPONENTIALS for e in calls):
        return 1
    return CHAINED if len(calls) <= MAX_CHAINS else 1


def _functions(code: Node) -> list[Call]:
    """The functions of f32 that are chains of operations."""
    return [e for e in walk(code) if isinstance(e, Call) and e.name in CHAINS and e.dtype == F32]


def lanes_together(code: Node, target: Target, lanes: int, extent: int) -> int:
    """The lanes to compute at once, of `lanes` in a vector and `extent` in all: a power of two."""
    most = 1 << extent.bit_length() - 1
    vectors = max(packed_together(code, target), chained_together(code, target))
    return max(lanes, min(lanes * vectors, most))
