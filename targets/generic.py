"""128-bit vectors of any CPU that LLVM knows, without instructions of one maker."""

from __future__ import annotations

from .isa import ISAS, GemmTile, Isa
from .microkernel_rows import floats, pairs

# 4x2 = 8 accumulators leave room for separate multiply and add.
_TILES = (GemmTile(4, 2), GemmTile(8, 1))

ISAS["generic"] = Isa(
    "generic",
    vector_bits=128,
    registers=16,
    has_masks=False,
    has_fma=False,
    has_half_conversion=False,
    # With two k steps at once LLVM keeps a vector of B on the stack: 47.2 GFLOP/s instead of 49.7 on 128x768x768.
    k_unroll=1,
    microkernels=(*floats(_TILES, _TILES), *pairs(_TILES)),
    cpu="x86-64",
    implied=frozenset(("sse2",)),
)
