"""Core families: rates per cycle and sizes of memory, the numbers that cost models and templates compute with.

Each number has its source beside it. Rates of instructions differ by core family (`MACHINES`); the others are those of
Zen 5, and close enough for other cores: choices depend on their ratios. `graphc dev roofline` measures peaks and
bandwidths of the machine at hand beside them, and `graphc doctor` prints them. Cache sizes, which differ most, are
read from the system (`codegen.host`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field

from ..base.records import dataclass


@dataclass(frozen=True)
class Rates:
    """Multiply-adds per second of one ISA's instructions on one core family, as multiples of its f32 `fma`.

    `s16_dot2`: pairs of integers, widened to 16 bits. `u8s8_dot4`, `s8s8_dot4`: groups of four bytes; signed times
    signed bytes include the correction of the sign. Both dots of bytes and that of bf16 count only where the CPU has
    the instruction. No vector instruction multiplies pairs of f16: `f16_dot2` counts their conversions, in
    programs for tile registers that run without them. `f16_tile2` is that of bf16, which takes as many cycles.
    """

    f64_fma: float = 0.5
    s16_dot2: float = 0.5
    bf16_dot2: float = 1.0
    f16_dot2: float = 0.3
    u8s8_dot4: float = 3.6
    s8s8_dot4: float = 2.8
    bf16_tile2: float = 11.8
    f16_tile2: float = 11.8
    u8s8_tile4: float = 23.7
    s8s8_tile4: float = 23.7


_ZEN5_RATES = {
    "amx": Rates(s16_dot2=1.65, bf16_dot2=1.9),
    "aarch64": Rates(),
    "avx512": Rates(s16_dot2=1.65, bf16_dot2=1.9),
    "avx2": Rates(s16_dot2=1.6),
    "generic": Rates(),
}
"""Measured in matmuls on Zen 5; `graphc dev roofline` measures the instructions alone: 1.9, 4.0, 3.5 for the dots."""

_SAPPHIRE_RAPIDS_RATES = {
    "amx": Rates(s16_dot2=1.65, bf16_dot2=0.5, u8s8_dot4=3.8, s8s8_dot4=1.7),
    "aarch64": Rates(),
    "avx512": Rates(s16_dot2=1.65, bf16_dot2=0.5, u8s8_dot4=3.8, s8s8_dot4=1.7),
    "avx2": Rates(s16_dot2=1.3),
    "generic": Rates(s16_dot2=0.32),
}
"""Measured by `graphc dev roofline` on Sapphire Rapids, where `vdpbf16ps` starts every other cycle and `vfmadd231ps`
twice a cycle. `s16_dot2` of AVX-512 is 1.96 alone (`vpdpwssd`); 1.65, that of Zen 5 in matmuls that widen operands,
is assumed. Those of tile registers (`bf16_tile2`, `u8s8_tile4`) include the loads of operands from L1, at 5,400 and
2,700 Gop/s; rows of registers that cross cache lines have a third of it."""

_ZEN3_RATES = {"avx2": Rates(s16_dot2=1.6), "generic": Rates(s16_dot2=0.25)}
"""Measured by `graphc dev roofline` on Zen 3, which has no other of these instructions."""


@dataclass(frozen=True)
class Machine:
    """One core family. Rates are per core and cycle unless said otherwise."""

    family: str = "zen5"
    """Key of the core family in `MACHINES`."""

    rates: Mapping[str, Rates] = field(default_factory=lambda: _ZEN5_RATES, hash=False)
    """Rates of the microkernels' instructions by ISA."""

    fma_per_cycle: int = 2
    """Vector multiply-adds: two ports on every core since Haswell and Zen 2 (vendors' optimization guides)."""

    fma_latency: int = 4
    """Cycles to the result of a multiply-add: 4 on Zen 2 to 5 and Skylake to Golden Cove (the same guides)."""

    loads_per_cycle: int = 2
    """Vector loads from L1: two 64-byte ones on Zen 5 and Ice Lake (the same guides); `roofline` measures L1."""

    load_cycles: float = 0
    """Cycles of a load of a register tile that its multiply-adds do not hide. Fitted to matmuls on Sapphire Rapids:
    tiles of 8 x 3 vectors there take 0.95 of the time of 11 x 2, and those of 28 x 1 take 1.3."""

    broadcasts_per_cycle: float = 2
    """Loads of one element that fills a vector, of rows whose elements lie at the same offsets of cache lines: two on
    Zen 5, one on Zen 3 (fitted to matmuls there: register tiles of 12 x 1 vectors take 1.7 times as long as 6 x 2)."""

    cache_line: int = 64
    """Bytes; of all x86-64 CPUs."""

    l1_ways: int = 12
    """Lines of one set of L1: rows 4 KB apart share one (Zen 5 and Ice Lake; read from the system where it says so)."""

    l2_ways: int = 16
    """The same of a core's own L2 (Zen 5)."""

    l2_bytes_per_cycle: float = 32
    """Read from a core's own L2 while it computes (measured on Zen 5, half of what `roofline` shows for L2)."""

    shared_bytes_per_cycle: float = 8
    """Streamed from the shared cache while a core computes (measured on Zen 5)."""

    strided_bytes_per_cycle: float = 1.5
    """The same where each row of a panel lies on another page: prefetchers stop there (measured on Zen 5)."""

    memory_bytes_per_cycle: float = 7
    """Streamed from memory while a core computes: 9 alone, 6 when two cores do (measured on Zen 5)."""

    copy_bytes_per_cycle: float = 16
    """Copied within L2 in short rows: a load and a store of a vector (measured on Zen 5)."""

    image_bytes_per_cycle: float = 12
    """Read and written of images that lie in the shared cache (measured on Zen 5)."""

    fetch_ahead: int = 8 << 10
    """Bytes between packed weights that are multiplied and those that are fetched meanwhile: a sixth of an L1, and
    0.5 us at 15 GB/s. A token of Gemma 3 270M takes 0.93 of the time without hints, 0.97 with 4 or 16 KiB (a loaded
    Sapphire Rapids)."""

    keys_ahead: int = 8
    """Keys between one that attention to a cache multiplies and one that it fetches; 0: CPUs' own prefetchers read
    them faster. 16 heads of 128, 8 of keys, 2,048 keys, which are in no L2, take 1.22 ms instead of 1.64 (a loaded
    Sapphire Rapids)."""

    prefetched: int = 4
    """Number of bytes streamed from behind L2 per byte that prefetchers do not hide (fitted to convolutions on
    Zen 5)."""

    unhidden: float = 1 / 16
    """Fraction of the shorter of compute and traffic that does not overlap the longer one (fitted to matmuls)."""

    tile_cycles: int = 30
    """Start and end of a register tile: its accumulators are loaded and stored, the last multiply-adds waited for
    (fitted to matmuls on Zen 5)."""

    band_cycles: int = 500
    """To begin a band of a convolution: loops, and the first panel comes from behind L1 (fitted on Zen 5)."""

    winograd_cycles: float = 4.0
    """Cycles of a vector of an element in either transform: 4.4 of the input, 3.1 of the result of F(4x4) (measured on
    Zen 5)."""

    open_cycles: int = 1000
    """To wake the other threads for a parallel loop and wait for the last: 0.3 to 1 us measured."""

    parallel_cycles: int = 4000
    """About 1 us: a loop that takes less of one core is not shared."""

    parallel_multiply_adds: int = 50_000
    """Multiply-adds of an f32 matmul from which threads pay off: about 1 us of one core."""

    parallel_elements: int = 16384
    """The same for loops over elements: below, waking the other threads would cost more."""

    max_local_bytes: int = 3 << 20
    """Most bytes of buffers on a thread's stack: workers have 8 MB (`codegen.support`), and so has a main thread."""


ZEN5 = Machine()
"""The machine whose numbers stand for all others except for what `MACHINES` says of them."""

SAPPHIRE_RAPIDS = Machine(
    family="sapphire-rapids", rates=_SAPPHIRE_RAPIDS_RATES, load_cycles=0.2, unhidden=0.2
)

ZEN3 = Machine(
    family="zen3", rates=_ZEN5_RATES | _ZEN3_RATES, l1_ways=8, l2_ways=8, broadcasts_per_cycle=1,
    shared_bytes_per_cycle=12, strided_bytes_per_cycle=3, unhidden=0.02, tile_cycles=15, fetch_ahead=2 << 10,
    keys_ahead=0,
)  # fmt: skip
"""Bandwidths and what they hide were fitted to 16 matmuls on Zen 3; `roofline` reads 16 to 18 bytes per cycle from the
shared cache there, and 7.4 from memory. 8-bit weights 262144x640 are read at 22.8 GB/s by rows of bytes with
`fetch_ahead` of 2 KiB, 20.6 with 8 KiB; the memory gives 23.6 (measured on a loaded Zen 3). Attention to 2,048 keys of
8 heads of 128 takes 1.18 ms, 1.32 with `keys_ahead` of 16."""

NEOVERSE_N1 = Machine(family="neoverse-n1", l1_ways=4, l2_ways=8)
"""Two multiply-adds and two loads of a vector per cycle, latency 4 (Arm Neoverse N1 Software Optimization Guide, 3.13
to 3.17); what the guide does not say is that of Zen 5."""

UNKNOWN = Machine(
    family="unknown", rates=_ZEN5_RATES | {"avx512": Rates(s16_dot2=1.65, s8s8_dot4=1.7)}
)
"""Cores that were not measured: Zen 5's rates, except for signed bytes that of Sapphire Rapids, and for bf16 that
of `fma`."""

MACHINES = {
    machine.family: machine for machine in (ZEN5, ZEN3, SAPPHIRE_RAPIDS, NEOVERSE_N1, UNKNOWN)
}
"""The core families described, by name."""


def machine_of(cpu: str, features: Collection[str], vendor: str) -> Machine:
    """Return the core family of a CPU by LLVM's names of it and of its features, and its vendor as Linux spells it.

    Intel's cores are told by their features, as virtual machines show model numbers of other cores: all with
    AVX512-BF16 have the vector units of Sapphire Rapids.
    """
    if "avx512bf16" in features and vendor == "GenuineIntel":
        return SAPPHIRE_RAPIDS
    return {"znver3": ZEN3, "znver5": ZEN5}.get(cpu, UNKNOWN)
