"""The schema of instruction sets (vectors, registers, microkernels, instructions) and the target of a compilation.

Pure data. `codegen.host` fills in what the running CPU reports; everything else takes a `Target` as an argument. The
rows are in the files of this folder (`x86`, `aarch64`, `generic`), which `ISAS` collects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Literal

from ..base.contraction import accumulator_of, multiplied_as
from ..base.dtypes import F32, DType
from ..base.errors import UserError
from ..base.records import dataclass
from .machines import ZEN5, Machine
from .systems import SYSTEMS

Use = Literal["fma", "dot2", "dot4", "tile2", "tile4"]
"""The operation that a microkernel multiplies with: its digit is the neighboring k it takes at once."""

K_GROUPS: dict[Use, int] = {"fma": 1, "dot2": 2, "dot4": 4, "tile2": 2, "tile4": 4}


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
class TileShape:
    """Two-dimensional registers: their number, rows, and bytes of a row."""

    number: int
    rows: int
    row_bytes: int


@dataclass(frozen=True)
class TileDepth:
    """The steps of k of a GEMM on tiles: `steps` of `depth` groups of neighboring k, the last padded with zeros."""

    steps: int
    depth: int

    @property
    def groups(self) -> int:
        """Groups of k with padding."""
        return self.steps * self.depth


def tile_depth(k: int, k_group: int, shape: TileShape) -> TileDepth:
    """Return equally deep steps of k: as few as there can be, or half as many more if these need no padding.

    Steps with padding are full, so that different k have one depth.
    """
    groups, full = max(1, -(-k // k_group)), shape.row_bytes // 4
    fewest = -(-groups // full)
    whole = (n for n in range(fewest, fewest * 3 // 2 + 1) if groups % n == 0 and k % k_group == 0)
    steps = next(whole, 0)
    if steps or fewest == 1:
        return TileDepth(steps or 1, groups // (steps or 1))
    return TileDepth(fewest, full)


@dataclass(frozen=True)
class Microkernel:
    """The multiplication of one pair of operand types on one ISA, if the CPU has the features it `needs`.

    `fma`: a row of B times an element of A. `dot2` and `dot4` take `k_group` neighboring k at once from panels with
    that many k innermost (`NK16n4k`). `tile2` and `tile4` multiply two-dimensional registers, read from the same
    panels (`multiply` is the instruction, `registers` their shape). B is converted to the type it is multiplied in
    when it is loaded, A by templates, once per block. `tiles` are the register tiles worth using; `rate_name` is the
    field of the machine's `Rates` that holds its rate, "" for that of f32.
    """

    a: DType
    b: DType
    instruction: Use
    tiles: tuple[GemmTile, ...]
    needs: tuple[str, ...] = ()
    rate_name: str = ""
    multiply: str = ""
    registers: TileShape | None = None

    def rate(self, target: Target) -> float:
        """Return the multiply-adds it does while `fma` on f32 does one, on the target's machine."""
        rates = target.machine.rates[target.isa]
        return float(getattr(rates, self.rate_name)) if self.rate_name else 1.0

    @property
    def accumulator(self) -> DType:
        """The type of the sums."""
        return accumulator_of(self.a, self.b)

    @property
    def copied_a(self) -> DType:
        """The type that A is multiplied in, and that of copies of it."""
        return multiplied_as(self.a, self.b, self.k_group)[0]

    @property
    def copied_b(self) -> DType:
        """The compute dtype of B, and that of panels B is packed into at run time."""
        return multiplied_as(self.a, self.b, self.k_group)[1]

    @property
    def converts_a(self) -> bool:
        """Return whether templates convert A before they multiply."""
        return self.a != self.copied_a

    @property
    def k_group(self) -> int:
        """Neighboring k that one instruction takes."""
        return K_GROUPS[self.instruction]

    @property
    def uses_tiles(self) -> bool:
        """Return whether it multiplies two-dimensional registers."""
        return self.registers is not None

    def takes_vectors(self, vectors: int) -> bool:
        """Return whether there is code for tiles of `vectors`: two-dimensional registers are few."""
        return self.registers is None or vectors in {tile.vectors for tile in self.tiles}

    def padded_groups(self, k: int) -> int:
        """Return the groups of k in a panel: two-dimensional registers need whole steps, zeros behind the last k."""
        if self.registers is None:
            return -(-k // self.k_group)
        return tile_depth(k, self.k_group, self.registers).groups


@dataclass(frozen=True)
class TileAccess:
    """Names and numbers by which code gets the two-dimensional registers of a machine.

    Args:
        features: LLVM's names of the features that their microkernels need.
        contents: LLVM's type of the contents of one.
        from_vector: the intrinsic that makes those of a vector of 1024 bytes.
        to_vector: the intrinsic that makes such a vector of them.
        request: number and arguments of the system call that asks Linux for them, which threads save on request only.
    """

    features: tuple[str, ...]
    contents: str
    from_vector: str
    to_vector: str
    request: tuple[int, ...]


@dataclass(frozen=True)
class Instruction:
    """An instruction on memory, and on two-dimensional registers if it has an `access`.

    `meaning` is a function in Tensor IR: registers are buffers of their rows, memory is a buffer of the rows that are
    touched. `emission` is the LLVM intrinsic with its operands: each is an LLVM type and a parameter of the meaning,
    times a number where memory counts in bytes. The register that receives the result stands before `=`.
    Without an `access` the parameters are vectors, which are loaded before and stored after; a type may then be
    left out where it is that of the parameter."""

    name: str
    meaning: str
    emission: str
    access: TileAccess | None = None
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class VectorInstructions:
    """The LLVM intrinsics of one operation by width, where a CPU has the features it `needs`.

    `operation` is the field of `codegen.capabilities.Capabilities` that says what the instructions do, and what their
    width counts.
    """

    operation: str
    needs: tuple[str, ...]
    intrinsics: Mapping[int, str]


@dataclass(frozen=True)
class Isa:
    """One instruction set level.

    Args:
        k_unroll: groups of k per iteration of the innermost loop of a microkernel of dot products; others take one k.
        index_scales: by what an address multiplies an index beside adding a displacement; () leaves the counters of
            loops to LLVM.
        in_order: LLVM options, and their values where it keeps the order of instructions.
        microkernels: preferred first.
        needs: LLVM's names of the features a CPU must have to run code of the level.
        cpu: the CPU that LLVM schedules for if the machine itself is of another level.
        features: LLVM features of code that runs on every CPU of the level.
        optional: features that code for this CPU also uses where the CPU has them.
        unwanted: features that a CPU's name implies for LLVM, and that code must not use or need by accident.
        extends: the level that this one adds instructions to.
        triple: LLVM's name of the system that runs the code; "" for that of the compiler.
    """

    name: str
    vector_bits: int
    registers: int
    has_masks: bool
    has_fma: bool
    has_half_conversion: bool
    k_unroll: int
    microkernels: tuple[Microkernel, ...]
    needs: tuple[str, ...] = ()
    cpu: str = "generic"
    features: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()
    implied: frozenset[str] = frozenset()
    extends: str = ""
    triple: str = ""
    tiles: TileShape | None = None
    index_scales: tuple[int, ...] = ()
    in_order: tuple[tuple[str, bool], ...] = ()


NATIVE_MACHINES = ("x86_64", "i386", "i686")
"""LLVM's names of the machines that levels without a triple run on."""

ISAS: dict[str, Isa] = {}
"""The instruction sets by name, widest first; the files of this folder add theirs when the folder is imported."""

INSTRUCTIONS: dict[str, Instruction] = {}
"""All instructions on two-dimensional registers, and those that programs declare, by name."""

TILE_ACCESS: list[TileAccess] = []
"""All kinds of two-dimensional registers."""

VECTOR_INSTRUCTIONS: list[VectorInstructions] = []
"""All instructions on vectors that LLVM does not choose by itself."""

POOL_MACHINES: dict[str, Mapping[str, object]] = {}
"""Intrinsics and numbers of Linux' system calls, mostly for the thread pool, by LLVM's name of the machine."""


def declared_features() -> tuple[str, ...]:
    """Return the features that instructions of programs need."""
    declared = (one for one in INSTRUCTIONS.values() if one.access is None)
    return tuple(dict.fromkeys(feature for one in declared for feature in one.needs))


def tile_features() -> tuple[str, ...]:
    """Return the features that code on two-dimensional registers needs."""
    return tuple(feature for access in TILE_ACCESS for feature in access.features)


def fused_levels() -> list[str]:
    """Return the levels with fused multiply-adds for systems like that of the compiler, widest first."""
    return [name for name, isa in ISAS.items() if isa.has_fma and not isa.triple]


@dataclass(frozen=True)
class Target:
    """One CPU to generate code for.

    `isa` names the row of `ISAS`, `system` that of `SYSTEMS`; `cpu` and `features` go to LLVM. Cache sizes are bytes
    per core (L3: of the socket); `machine` holds rates, latencies and limits.
    """

    isa: str
    cpu: str = "generic"
    features: str = ""
    l1_bytes: int = 32 << 10
    l2_bytes: int = 512 << 10
    l3_bytes: int = 16 << 20
    machine: Machine = field(default=ZEN5, hash=False)  # hashed often, and rarely different
    system: str = ""

    def __post_init__(self) -> None:
        if self.isa not in ISAS:
            raise UserError(f"target '{self.isa}' is not known; known are {', '.join(ISAS)}")

    @property
    def table(self) -> Isa:
        """The row of this ISA."""
        return ISAS[self.isa]

    @property
    def triple(self) -> str:
        """LLVM's name of the system that runs the code; "" for that of the compiler."""
        own = self.table.triple
        if not self.system:
            return own
        return SYSTEMS[self.system].triples[own.partition("-")[0] or NATIVE_MACHINES[0]]

    def lanes(self, dtype: DType) -> int:
        """Elements of `dtype` in one vector register."""
        return self.table.vector_bits // max(dtype.bits, 8)

    def has(self, *features: str) -> bool:
        """Return whether LLVM may use all of these instruction sets."""
        named = {one[1:] for one in self.features.split(",") if one.startswith("+")}
        return named.union(self.table.implied).issuperset(features)

    def without_tiles(self) -> Target:
        """Return the same CPU without two-dimensional registers."""
        if self.table.tiles is None:
            return self
        kept = (name for name in self.features.split(",") if name[1:] not in tile_features())
        return replace(self, isa=self.table.extends, features=",".join(kept))

    def with_features(self, cpu: str, features: str) -> Target:
        """The same vector shapes emitted for another CPU: tests use it to run 512-bit code on a 256-bit machine."""
        return replace(self, cpu=cpu, features=features)
