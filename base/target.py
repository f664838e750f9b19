"""What code is generated for: the ISA, its vector shape, and the one table of tiles and cache blocks per ISA.

Pure data. `codegen.host` fills in what the running CPU reports; everything below takes a `Target` as an argument.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .dtypes import F32, DType
from .errors import UserError


@dataclass(frozen=True)
class GemmTile:
    """Register tile of the f32 microkernel: `rows` x (`vectors` * lanes) accumulators.

    `efficiency` is the share of the multiply-add rate the tile reaches when nothing is wasted, measured.
    """

    rows: int
    vectors: int
    efficiency: float = 1.0

    def columns(self, target: Target) -> int:
        """f32 columns of the tile on a target."""
        return self.vectors * target.lanes(F32)


@dataclass(frozen=True)
class IsaTable:
    """Numbers of one ISA that templates block with; each with its reason in `ISA_TABLES`."""

    vector_bits: int
    registers: int
    has_masks: bool
    has_fma: bool
    k_unroll: int
    gemm_tiles: tuple[GemmTile, ...]


ISA_TABLES = {
    # k_unroll: k steps in one trip of the innermost loop. With 24 multiply-adds a step its counter is hidden already,
    # and LLVM's scheduler spills when it sees more steps at once; with 12, two steps hide it.
    # 32 registers: 8x3 = 24 accumulators + 3 B vectors + 1 broadcast = 28 (94-98 % of peak measured).
    # 11x2 = 22 suits N that is a multiple of 32 but not of 48. Taller would fit the registers, but rows 4 KB apart
    # (K a multiple of 1024) share one set of a 12-way L1: 14 rows and B miss at every step, 91 % of peak instead of 96.
    "avx512": IsaTable(512, 32, True, True, 1, (GemmTile(8, 3), GemmTile(11, 2), GemmTile(28, 1))),
    # 16 registers: 4x3 = 12 accumulators + 3 B vectors + 1 broadcast; 7 loads per 12 multiply-adds.
    # 6x2 = 12 + 2 + 1-2, 8 loads; 12x1 for at most 8 columns.
    "avx2": IsaTable(
        256, 16, False, True, 2, (GemmTile(4, 3), GemmTile(6, 2, 0.98), GemmTile(12, 1))
    ),
    # 128-bit vectors on any LLVM target: 4x2 = 8 accumulators leave room for separate multiply and add. With two k
    # steps at once LLVM keeps a vector of B on the stack: 47.2 GFLOP/s instead of 49.7 on 128x768x768.
    "generic": IsaTable(128, 16, False, False, 1, (GemmTile(4, 2), GemmTile(8, 1))),
}

# LLVM's names of the instruction sets each ISA's code uses; widest ISA first.
ISA_FEATURES = {
    "avx512": ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma"),
    "avx2": ("avx2", "fma"),
    "generic": (),
}


@dataclass(frozen=True)
class Target:
    """One CPU to generate code for.

    `isa` names the row of `ISA_TABLES`; `cpu` and `features` go to LLVM. Cache sizes are bytes per
    core (L3: of the socket).
    """

    isa: str
    cpu: str = "generic"
    features: str = ""
    l1_bytes: int = 32 << 10
    l2_bytes: int = 512 << 10
    l3_bytes: int = 16 << 20

    def __post_init__(self) -> None:
        if self.isa not in ISA_TABLES:
            raise UserError(f"target '{self.isa}' is not known; known are {', '.join(ISA_TABLES)}")

    @property
    def table(self) -> IsaTable:
        """The blocking numbers of this ISA."""
        return ISA_TABLES[self.isa]

    def lanes(self, dtype: DType) -> int:
        """Elements of `dtype` in one vector register."""
        return self.table.vector_bits // max(dtype.bits, 8)

    def with_features(self, cpu: str, features: str) -> Target:
        """The same vector shapes emitted for another CPU: how tests run 512-bit code on a 256-bit machine."""
        return replace(self, cpu=cpu, features=features)
