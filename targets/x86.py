"""x86: the levels AMX, AVX-512 and AVX2, each with the extensions that its CPUs may have.

A tile register of AMX has 16 rows of 64 bytes. `tdpbusd` multiplies `size_rows` rows of A, of `size_depth` groups of 4
bytes, by `size_depth` rows of 16 groups, which is B as panels hold it, and adds to `size_rows` x 16 sums.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ..base.dtypes import BF16, F16, F32, S8, S32, U8, DType
from .isa import (
    INSTRUCTIONS,
    ISAS,
    POOL_MACHINES,
    TILE_ACCESS,
    VECTOR_INSTRUCTIONS,
    GemmTile,
    Instruction,
    Isa,
    Microkernel,
    TileAccess,
    TileShape,
    VectorInstructions,
)
from .machine_code import MACHINE_CODE, MachineCode, Relocation
from .microkernel_rows import floats, pairs
from .x86_system import FREESTANDING, MODES

# 32 registers: 8x3 = 24 accumulators + 3 B vectors + 1 broadcast = 28 (94-98 % of peak measured).
# 11x2 = 22 suits N that is a multiple of 32 but not of 48. Taller would fit the registers, but rows 4 KB apart
# (K a multiple of 1024) share one set of a 12-way L1: 14 rows and B miss at every step, 91 % of peak instead of 96.
_WIDE = (GemmTile(8, 3), GemmTile(11, 2), GemmTile(28, 1))
# Pairs that are converted apart: both halves of a row of B and of a broadcast, 16 + 4 + 2 and what converts them.
_WIDE_APART = (GemmTile(8, 2), GemmTile(16, 1))
# 16 registers: 4x3 = 12 accumulators + 3 B vectors + 1 broadcast; 7 loads per 12 multiply-adds.
# 6x2 = 12 + 2 + 1-2, 8 loads; 12x1 for at most 8 columns.
_NARROW = (GemmTile(4, 3), GemmTile(6, 2, 0.98), GemmTile(12, 1))
# A vector of 16-bit floats takes a shuffle and a shift, on a port of multiply-adds: 4 of them for 12 (96 % of
# peak measured), where 4x3 has 6 (88 %).
_NARROW_CONVERTING = (GemmTile(6, 2), GemmTile(4, 3, 0.92), GemmTile(12, 1))
# Without VNNI, a multiplication needs a register for its result: 6x2 = 12 + 2 + 1 + 1 = 16.
_NARROW_PAIRS = (GemmTile(6, 2), GemmTile(12, 1))
# 8 tile registers of 16 rows: 2 x 2 accumulators and 2 + 2 operands, 4 loads for 4 multiplications.
_TILES = TileShape(number=8, rows=16, row_bytes=64)
# 2 x 1 load 3 tiles for 2 multiplications, mostly from L2 (35 % of the rate of 2 x 2 measured on 128x768x768).
_TWO_DIMENSIONAL = (GemmTile(32, 2), GemmTile(32, 1, 0.5))

_AMX = TileAccess(
    features=("amx-tile", "amx-int8", "amx-bf16"),
    contents="x86_amx",
    from_vector="llvm.x86.cast.vector.to.tile.v256i32",
    to_vector="llvm.x86.cast.tile.to.vector.v256i32",
    # arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), of Linux's asm/prctl.h
    request=(158, 0x1023, 18),
)
TILE_ACCESS.append(_AMX)

_UNWANTED = (
    *("sse4a", "xop", "fma4", "tbm", "gfni"),
    # Nothing here encrypts or adds long integers; without them, code for this CPU runs on older ones too.
    *("adx", "aes", "pclmul", "sha", "vaes", "vpclmulqdq"),
)
_INDEX_SCALES = (1, 2, 4, 8)
# Scheduling before registers are allocated, and what reassociates integer sums.
_IN_ORDER = (("enable-misched", False), ("x86-machine-combiner", False))
_AVX2_FEATURES = ("avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "popcnt", "movbe")
_AVX512_NEEDS = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma")
_AVX512_OPTIONAL = ("avx512vnni", "avx512bf16", "avx512vbmi", "avxvnni")

_AVX512 = Isa(
    "avx512",
    vector_bits=512,
    registers=32,
    has_masks=True,
    has_fma=True,
    has_half_conversion=True,
    k_unroll=1,  # LLVM's scheduler spills when it sees more steps at once
    microkernels=(
        Microkernel(BF16, BF16, "dot2", _WIDE, ("avx512bf16",), "bf16_dot2"),
        *floats(_WIDE, _WIDE),
        Microkernel(F16, F16, "dot2", _WIDE_APART, (), "f16_dot2"),
        Microkernel(U8, S8, "dot4", _WIDE, ("avx512vnni",), "u8s8_dot4"),
        Microkernel(S8, S8, "dot4", _WIDE, ("avx512vnni",), "s8s8_dot4"),
        *pairs(_WIDE),
    ),
    needs=_AVX512_NEEDS,
    cpu="x86-64-v4",
    features=(*_AVX2_FEATURES, "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"),
    optional=_AVX512_OPTIONAL,
    unwanted=_UNWANTED,
    index_scales=_INDEX_SCALES,
    in_order=_IN_ORDER,
    # Every CPU with AVX2 and FMA also has these.
    implied=frozenset(("fma", "f16c", "sse2", "ssse3", "sse4.1", "sse4.2", "avx", "avx2")),
)

_TILE_ROWS = (
    Microkernel(U8, S8, "tile4", _TWO_DIMENSIONAL, ("amx-int8",), "u8s8_tile4", "tdpbusd", _TILES),
    Microkernel(S8, S8, "tile4", _TWO_DIMENSIONAL, ("amx-int8",), "s8s8_tile4", "tdpbssd", _TILES),
    Microkernel(
        BF16, BF16, "tile2", _TWO_DIMENSIONAL, ("amx-bf16",), "bf16_tile2", "tdpbf16ps", _TILES
    ),
    Microkernel(
        F16, F16, "tile2", _TWO_DIMENSIONAL, ("amx-fp16",), "f16_tile2", "tdpfp16ps", _TILES
    ),
)

ISAS["amx"] = replace(
    _AVX512,
    name="amx",
    microkernels=(*_TILE_ROWS, *_AVX512.microkernels),
    needs=(*_AVX512_NEEDS, "avx512vnni", "avx512bf16", *_AMX.features),
    features=(*_AVX512.features, "avx512vnni", "avx512bf16", "prfchw", *_AMX.features),
    optional=("avx512vbmi", "avxvnni", "amx-fp16"),
    extends="avx512",
    tiles=_TILES,
)
ISAS["avx512"] = _AVX512
ISAS["avx2"] = Isa(
    "avx2",
    vector_bits=256,
    registers=16,
    has_masks=False,
    has_fma=True,
    has_half_conversion=True,
    k_unroll=2,  # with one, bytes take up to 1.01 of the time on Zen 3
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
    index_scales=_INDEX_SCALES,
    in_order=_IN_ORDER,
    implied=_AVX512.implied,
)


_VECTOR_INSTRUCTIONS = {
    ("dot_bytes", "avxvnni"): {16: "avx512.vpdpbusd.128", 32: "avx512.vpdpbusd.256"},
    ("dot_bytes", "avx512vnni"): {n: f"avx512.vpdpbusd.{8 * n}" for n in (16, 32, 64)},
    ("dot_bf16", "avx512bf16"): {n: f"avx512bf16.dpbf16ps.{8 * n}" for n in (16, 32, 64)},
    ("pair_dots", "avx2"): {16: "sse2.pmadd.wd", 32: "avx2.pmadd.wd"},
    ("pair_dots", "avx512bw"): {16: "sse2.pmadd.wd", 32: "avx2.pmadd.wd", 64: "avx512.pmaddw.d.512"},
    ("byte_pairs", "avx2"): {16: "ssse3.pmadd.ub.sw.128", 32: "avx2.pmadd.ub.sw"},
    ("byte_pairs", "avx512bw"): {
        16: "ssse3.pmadd.ub.sw.128", 32: "avx2.pmadd.ub.sw", 64: "avx512.pmaddubs.w.512",
    },
    ("picks", "avx2"): {8: "avx2.permps"},
    ("picks", "avx512f"): {8: "avx2.permps", 16: "avx512.permvar.sf.512"},
    ("nearest", "sse2"): {4: "sse2.cvtps2dq"},
    ("nearest", "avx2"): {8: "avx.cvt.ps2dq.256"},
    ("nearest", "avx512f"): {16: "avx512.mask.cvtps2dq.512"},
    ("lookups", "avx2"): {32: "avx2.pshuf.b"},
    ("lookups", "avx512vbmi"): {64: "avx512.vpermi2var.qi.512"},
    ("scalef", "avx512f avx512vl"): {n: f"avx512.mask.scalef.ps.{32 * n}" for n in (4, 8, 16)},
}  # fmt: skip
VECTOR_INSTRUCTIONS += [
    VectorInstructions(name, tuple(needs.split()), {n: f"llvm.x86.{x}" for n, x in found.items()})
    for (name, needs), found in _VECTOR_INSTRUCTIONS.items()
]
VECTOR_INSTRUCTIONS.append(
    VectorInstructions("masked_loads", ("avx2",), dict.fromkeys((32, 64), "llvm.masked.load"))
)

POOL_MACHINES["x86_64"] = {
    "PAUSE": "llvm.x86.sse2.pause",
    "SAVE_MODE": "llvm.x86.sse.stmxcsr",
    "SET_MODE": "llvm.x86.sse.ldmxcsr",
    "MODES": MODES,
    "MMAP": 9,
    "MPROTECT": 10,
    "MUNMAP": 11,
    "SIGPROCMASK": 14,
    "MADVISE": 28,
    "GETPID": 39,
    "CLONE": 56,
    "EXIT": 60,
    "FUTEX": 202,
    "SETAFFINITY": 203,
    "GETAFFINITY": 204,
    "CLOCK_GETTIME": 228,
    "PERF_EVENT": 298,
    "GETCPU": 309,
    "FREESTANDING": FREESTANDING,
}

MACHINE_CODE[62] = MachineCode(
    number=62,
    page=0x1000,
    relocations={
        1: Relocation("symbol", "address", 8),
        2: Relocation("symbol", "distance", 4),
        4: Relocation("symbol", "distance", 4),
        24: Relocation("symbol", "distance", 8),
        **{number: Relocation("slot", "distance", 4) for number in (9, 41, 42)},
    },
    address=1,
    distance=2,
    relative=8,
    resolved=37,
    jump=b"\xff\x25",
    padding=b"\xcc",
)
"""System V ABI, AMD64 supplement 1.0, table 4.9."""


def _copies(dtype: DType) -> tuple[Instruction, ...]:
    """Return the load and the store of a tile: rows of up to 16 groups of 4 bytes, `size_stride` elements apart."""
    group = 4 // dtype.size
    row = 16 * group
    head = f"(tile: {dtype}[{16 * row}], memory: {dtype}[(size_rows - 1) * size_stride + size_depth * {group}], "
    loops = "size_rows: s64, size_stride: s64, size_depth: s64):\n" + _loops(
        ("i", "size_rows"), ("j", "size_depth")
    )
    register, memory = f"tile[i * {row} + j * {group}]", f"memory[i * size_stride + j * {group}]"
    shape = "i16 size_rows, i16 size_depth * 4, ptr memory, i64 size_stride * "
    return (
        Instruction(
            f"tile_load_{dtype}",
            f"def tile_load_{dtype}{head}{loops}{_copied(register, memory, group)}",
            f"tile = llvm.x86.tileloadd64.internal({shape}{dtype.size})",
            _AMX,
            ("amx-tile",),
        ),
        Instruction(
            f"tile_store_{dtype}",
            f"def tile_store_{dtype}{head}{loops}{_copied(memory, register, group)}",
            f"llvm.x86.tilestored64.internal({shape}{dtype.size}, x86_amx tile)",
            _AMX,
            ("amx-tile",),
        ),
    )


def _copied(to: str, source: str, elements: int) -> str:
    value = source if elements == 1 else f"load({source}, {elements})"
    return f"            {to} = {value}\n"


def _loops(*loops: tuple[str, str]) -> str:
    return "".join(
        f"{'    ' * (depth + 1)}for {name} in range(0, {end}):\n"
        for depth, (name, end) in enumerate(loops)
    )


def _zero(dtype: DType) -> Instruction:
    name = f"tile_zero_{dtype}"
    meaning = f"def {name}(tile: {dtype}[256], size_rows: s64):\n" + _loops(("i", "size_rows"))
    meaning += f"        tile[i * 16] = broadcast(cast({dtype}, 0), 16)\n"
    return Instruction(
        name,
        meaning,
        "tile = llvm.x86.tilezero.internal(i16 size_rows, i16 64)",
        _AMX,
        ("amx-tile",),
    )


def _multiplication(
    name: str, a: DType, b: DType, accumulator: DType, body: str, feature: str
) -> Instruction:
    """Return c += a x b for tiles; `body` adds one row of A, `i`."""
    a_size, b_size = (1024 // x.size for x in (a, b))
    head = f"def {name}(c: {accumulator}[256], a: {a}[{a_size}], b: {b}[{b_size}], size_rows: s64, size_depth: s64):\n"
    emission = (
        f"c = llvm.x86.{name}.internal(i16 size_rows, i16 64, i16 size_depth * 4, "
        "x86_amx c, x86_amx a, x86_amx b)"
    )
    return Instruction(
        name, head + _loops(("i", "size_rows")) + body, emission, _AMX, ("amx-tile", feature)
    )


def _bytes(name: str, a: DType, b: DType) -> Instruction:
    """Return the multiplication of bytes, exact except for sums that wrap."""
    body = f"""\
        for k in range(0, size_depth):
            group = bitcast(load(a[i * 64 + k * 4], 4), dtype=s32, lanes=1)
            left = bitcast(broadcast(group, 16), dtype={a}, lanes=64)
            c[i * 16] = dot4(load(c[i * 16], 16), left, load(b[k * 64], 64))
"""
    return _multiplication(name, a, b, S32, body, "amx-int8")


_BF16_PAIRS = """\
            a_even = bitcast(a_pair << broadcast(u32(16), 16), dtype=f32)
            b_even = bitcast(b_pair << broadcast(u32(16), 16), dtype=f32)
            a_odd = bitcast(a_pair & broadcast(u32(4294901760), 16), dtype=f32)
            b_odd = bitcast(b_pair & broadcast(u32(4294901760), 16), dtype=f32)
"""
_F16_PAIRS = """\
            a_even = cast(f32, bitcast(cast(u16, a_pair), dtype=f16))
            b_even = cast(f32, bitcast(cast(u16, b_pair), dtype=f16))
            a_odd = cast(f32, bitcast(cast(u16, a_pair >> broadcast(u32(16), 16)), dtype=f16))
            b_odd = cast(f32, bitcast(cast(u16, b_pair >> broadcast(u32(16), 16)), dtype=f16))
"""
"""Pairs of 16-bit floats as f32: the upper half of an f32 is a bf16."""


def _pairs_body(pairs: str) -> str:
    """Return the multiplication of one row of pairs, which `pairs` separates.

    The even and the odd k are summed apart, from zero, in fused multiply-adds; then their total is added to C. Every
    operand and every sum below 2^-126 counts as zero, which no f16 is. Intel 64 and IA-32 Architectures Software
    Developer's Manual, TDPBF16PS; Intel Architecture Instruction Set Extensions, TDPFP16PS.
    """
    return f"""\
        even: f32[16]
        odd: f32[16]
        even[0] = broadcast(0.0, 16)
        odd[0] = broadcast(0.0, 16)
        for k in range(0, size_depth):
            a_pair = broadcast(bitcast(load(a[i * 32 + k * 2], 2), dtype=u32, lanes=1), 16)
            b_pair = bitcast(load(b[k * 32], 32), dtype=u32, lanes=16)
{pairs}\
            evens = fma(FLUSH(a_even), FLUSH(b_even), load(even[0], 16))
            odds = fma(FLUSH(a_odd), FLUSH(b_odd), load(odd[0], 16))
            even[0] = FLUSH(evens)
            odd[0] = FLUSH(odds)
        both = load(even[0], 16) + load(odd[0], 16)
        before = load(c[i * 16], 16)
        total = FLUSH(before) + FLUSH(both)
        c[i * 16] = FLUSH(total)
"""


def _flushed(text: str) -> str:
    """Return Tensor IR with FLUSH(x) written out: subnormal numbers are zeros."""
    flushed = (
        r"select(abs(\1) < broadcast(1.1754943508222875e-38, 16), \1 * broadcast(0.0, 16), \1)"
    )
    return re.sub(r"FLUSH\((\w+)\)", flushed, text)


_INSTRUCTIONS = (
    *(one for dtype in (U8, S8, BF16, F16, S32, F32) for one in _copies(dtype)),
    _zero(S32),
    _zero(F32),
    _bytes("tdpbusd", U8, S8),
    _bytes("tdpbssd", S8, S8),
    _multiplication("tdpbf16ps", BF16, BF16, F32, _flushed(_pairs_body(_BF16_PAIRS)), "amx-bf16"),
    _multiplication("tdpfp16ps", F16, F16, F32, _flushed(_pairs_body(_F16_PAIRS)), "amx-fp16"),
)
INSTRUCTIONS |= {one.name: one for one in _INSTRUCTIONS}
