"""AArch64: 128-bit NEON with fused multiply-adds. Code for it is made on any machine and runs on its own.

Dot products of bytes (`sdot` of `dotprod`, `usdot` of `i8mm`) are used where the target's name asks for them:
`aarch64+dotprod+i8mm`.
"""

from __future__ import annotations

from ..base.dtypes import S8, U8
from .aarch64_system import FREESTANDING, MODES
from .isa import (
    ISAS,
    POOL_MACHINES,
    VECTOR_INSTRUCTIONS,
    GemmTile,
    Isa,
    Microkernel,
    VectorInstructions,
)
from .machine_code import MACHINE_CODE, MachineCode, Relocation
from .microkernel_rows import floats, pairs

# 32 registers: 8x3 = 24 accumulators + 3 B vectors + 1 broadcast = 28.
_TILES = (GemmTile(8, 3), GemmTile(11, 2), GemmTile(28, 1))
# Integers are widened to 16 bits and multiplied apart, which takes registers of their own.
_PAIRS = (GemmTile(4, 2), GemmTile(8, 1))
# `sdot` takes u8 with its sign flipped and a correction of each vector of B: 8x2 = 16 + 2 + 2 + 2 = 22.
_FLIPPED = (GemmTile(8, 2), GemmTile(16, 1))

ISAS["aarch64"] = Isa(
    "aarch64",
    vector_bits=128,
    registers=32,
    has_masks=False,
    has_fma=True,
    has_half_conversion=False,
    k_unroll=1,
    microkernels=(
        *floats(_TILES, _TILES),
        Microkernel(U8, S8, "dot4", _TILES, ("i8mm",), "u8s8_dot4"),
        Microkernel(U8, S8, "dot4", _FLIPPED, ("dotprod",), "s8s8_dot4"),
        Microkernel(S8, S8, "dot4", _TILES, ("dotprod",), "s8s8_dot4"),
        *pairs(_PAIRS),
    ),
    needs=("neon",),
    features=("neon",),
    optional=("dotprod", "i8mm"),
    implied=frozenset(("fma", "rounding")),
    triple="aarch64-unknown-linux-gnu",
)

VECTOR_INSTRUCTIONS += [
    VectorInstructions(
        "dot_signed_bytes", ("dotprod",), {16: "llvm.aarch64.neon.sdot.v4i32.v16i8"}
    ),
    VectorInstructions("dot_bytes", ("i8mm",), {16: "llvm.aarch64.neon.usdot.v4i32.v16i8"}),
]

POOL_MACHINES["aarch64"] = {
    "PAUSE": "pause",
    "SAVE_MODE": "save_mode",
    "SET_MODE": "set_mode",
    "MODES": MODES,
    "EXIT": 93,
    "FUTEX": 98,
    "CLOCK_GETTIME": 113,
    "SETAFFINITY": 122,
    "GETAFFINITY": 123,
    "SIGPROCMASK": 135,
    "GETCPU": 168,
    "GETPID": 172,
    "MUNMAP": 215,
    "CLONE": 220,
    "MMAP": 222,
    "MPROTECT": 226,
    "MADVISE": 233,
    "PERF_EVENT": 241,
    "FREESTANDING": FREESTANDING,
}

# Of an addition, and of loads by their size.
_LOW_BITS = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
MACHINE_CODE[183] = MachineCode(
    number=183,
    page=0x10000,
    relocations={
        257: Relocation("symbol", "address", 8),
        260: Relocation("symbol", "distance", 8),
        261: Relocation("symbol", "distance", 4),
        275: Relocation("symbol", "page"),
        282: Relocation("symbol", "branch"),
        283: Relocation("symbol", "branch"),
        311: Relocation("slot", "page"),
        312: Relocation("slot", "low", 3),
        314: Relocation("symbol", "distance", 4),
        **{number: Relocation("symbol", "low", shift) for number, shift in _LOW_BITS.items()},
    },
    address=257,
    distance=261,
    relative=1027,
    resolved=1032,
)
"""ELF for the Arm 64-bit Architecture, release 2024Q3, section 5.7."""
