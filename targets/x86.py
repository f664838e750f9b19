"""x86: the levels AMX, AVX-512 and AVX2, each with the extensions that its CPUs may have."""

from __future__ import annotations

from ..base.dtypes import BF16, S8, U8
from .isa import ISAS, GemmTile, Isa, Microkernel
from .microkernel_rows import floats, pairs

# 32 registers: 8x3 = 24 accumulators + 3 B vectors + 1 broadcast = 28 (94-98 % of peak measured).
# 11x2 = 22 suits N that is a multiple of 32 but not of 48. Taller would fit the registers, but rows 4 KB apart
# (K a multiple of 1024) share one set of a 12-way L1: 14 rows and B miss at every step, 91 % of peak instead of 96.
_WIDE = (GemmTile(8, 3), GemmTile(11, 2), GemmTile(28, 1))
# 16 registers: 4x3 = 12 accumulators + 3 B vectors + 1 broadcast; 7 loads per 12 multiply-adds.
# 6x2 = 12 + 2 + 1-2, 8 loads; 12x1 for at most 8 columns.
_NARROW = (GemmTile(4, 3), GemmTile(6, 2, 0.98), GemmTile(12, 1))
# A vector of 16-bit floats takes a shuffle and a shift, on a port of multiply-adds: 4 of them for 12 (96 % of
# peak measured), where 4x3 has 6 (88 %).
_NARROW_CONVERTING = (GemmTile(6, 2), GemmTile(4, 3, 0.92), GemmTile(12, 1))
# Without VNNI, a multiplication needs a register for its result: 6x2 = 12 + 2 + 1 + 1 = 16.
_NARROW_PAIRS = (GemmTile(6, 2), GemmTile(12, 1))
# 8 tile registers of 16 rows: 2 x 2 accumulators and 2 + 2 operands, 4 loads for 4 multiplications.
_TWO_DIMENSIONAL = (GemmTile(32, 2), GemmTile(32, 1))

_UNWANTED = ("sse4a", "xop", "fma4", "tbm", "gfni")
_AVX2_FEATURES = ("avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "popcnt", "movbe")
_AVX512_NEEDS = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma")
_AVX512_OPTIONAL = ("avx512vnni", "avx512bf16", "avx512vbmi", "avxvnni")
_AMX = ("amx-tile", "amx-int8", "amx-bf16")

_AVX512 = Isa(
    "avx512",
    vector_bits=512,
    registers=32,
    has_masks=True,
    has_fma=True,
    has_half_conversion=True,
    # With 24 multiply-adds per step the loop counter is hidden already, and LLVM's scheduler spills when it sees more
    # steps at once.
    k_unroll=1,
    microkernels=(
        Microkernel(BF16, BF16, "dot2", _WIDE, ("avx512bf16",), "bf16_dot2"),
        *floats(_WIDE, _WIDE),
        Microkernel(U8, S8, "dot4", _WIDE, ("avx512vnni",), "u8s8_dot4"),
        Microkernel(S8, S8, "dot4", _WIDE, ("avx512vnni",), "s8s8_dot4"),
        *pairs(_WIDE),
    ),
    needs=_AVX512_NEEDS,
    cpu="x86-64-v4",
    features=(*_AVX2_FEATURES, "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"),
    optional=_AVX512_OPTIONAL,
    unwanted=_UNWANTED,
    # Every CPU with AVX2 and FMA also has these.
    implied=frozenset(("fma", "f16c", "sse4.1", "avx2")),
)

ISAS["avx512"] = _AVX512
ISAS["avx2"] = Isa(
    "avx2",
    vector_bits=256,
    registers=16,
    has_masks=False,
    has_fma=True,
    has_half_conversion=True,
    k_unroll=2,  # 12 multiply-adds of one step do not hide the loop counter
    microkernels=(
        *floats(_NARROW, _NARROW_CONVERTING),
        Microkernel(U8, S8, "dot4", _NARROW, ("avxvnni",), "u8s8_dot4"),
        *pairs(_NARROW_PAIRS),
    ),
    needs=("avx2", "fma"),
    cpu="x86-64-v3",
    features=_AVX2_FEATURES,
    optional=_AVX512_OPTIONAL,
    unwanted=_UNWANTED,
    implied=_AVX512.implied,
)
