"""The target of code generation: ISA, vector shape, and the table of tiles and cache blocks per ISA.

Pure data. `codegen.host` fills in what the running CPU reports; everything below takes a `Target` as an argument.
"""

from __future__ import annotations

from dataclasses import field, replace

from .dtypes import F32, DType
from .errors import UserError
from .machine import ZEN5, Machine
from .records import dataclass


@dataclass(frozen=True)
class GemmTile:
    """Register tile of a microkernel: `rows` x (`vectors` * lanes) accumulators.

    `efficiency` is the share of the multiply-add rate the tile reaches when nothing is wasted, measured.
    """

    rows: int
    vectors: int
    efficiency: float = 1.0

    def columns(self, target: Target, accumulator: DType = F32) -> int:
        """Columns of the tile on a target for sums of a type."""
        return self.vectors * target.lanes(accumulator)


@dataclass(frozen=True)
class IsaTable:
    """Blocking parameters of one ISA; `ISA_TABLES` gives the reason for each."""

    vector_bits: int
    registers: int
    has_masks: bool
    has_fma: bool
    has_half_conversion: bool
    k_unroll: int


ISA_TABLES = {
    # k_unroll: k steps per iteration of the innermost loop. With 24 multiply-adds per step the loop counter is hidden
    # already, and LLVM's scheduler spills when it sees more steps at once; with 12, two steps hide it.
    "avx512": IsaTable(512, 32, True, True, True, 1),
    "avx2": IsaTable(256, 16, False, True, True, 2),
    # With two k steps at once LLVM keeps a vector of B on the stack: 47.2 GFLOP/s instead of 49.7 on 128x768x768.
    "generic": IsaTable(128, 16, False, False, False, 1),
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

    `isa` names the row of `ISA_TABLES`; `cpu` and `features` go to LLVM. Cache sizes are bytes per core (L3: of the
    socket); `machine` holds rates, latencies and limits.
    """

    isa: str
    cpu: str = "generic"
    features: str = ""
    l1_bytes: int = 32 << 10
    l2_bytes: int = 512 << 10
    l3_bytes: int = 16 << 20
    machine: Machine = field(default=ZEN5, hash=False)  # hashed often, and rarely different

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

    def has(self, *features: str) -> bool:
        """Return whether LLVM may use all of these instruction sets."""
        return {f"+{feature}" for feature in features} <= set(self.features.split(","))

    def with_features(self, cpu: str, features: str) -> Target:
        """The same vector shapes emitted for another CPU: tests use it to run 512-bit code on a 256-bit machine."""
        return replace(self, cpu=cpu, features=features)
