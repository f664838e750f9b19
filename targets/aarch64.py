"""AArch64: 128-bit NEON with fused multiply-adds. Code for it is made on any machine and runs on its own."""

from __future__ import annotations

from .isa import ISAS, GemmTile, Isa
from .microkernel_rows import floats, pairs

# 32 registers: 8x3 = 24 accumulators + 3 B vectors + 1 broadcast = 28.
_TILES = (GemmTile(8, 3), GemmTile(11, 2), GemmTile(28, 1))
# Integers are widened to 16 bits and multiplied apart, which takes registers of their own.
_PAIRS = (GemmTile(4, 2), GemmTile(8, 1))

ISAS["aarch64"] = Isa(
    "aarch64",
    vector_bits=128,
    registers=32,
    has_masks=False,
    has_fma=True,
    has_half_conversion=False,
    k_unroll=1,  # 24 multiply-adds hide the loop counter
    microkernels=(*floats(_TILES, _TILES), *pairs(_PAIRS)),
    needs=("neon",),
    features=("neon",),
    implied=frozenset(("fma", "rounding")),
    triple="aarch64-unknown-linux-gnu",
)
