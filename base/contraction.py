"""Matrix products by type: operand, accumulator and result types, and the table of microkernels.

A contraction sums products of elements of A and B in an accumulator and converts the sum to the result. Templates get
the register tiles and the number of neighboring k per instruction from `microkernel`.
"""

from __future__ import annotations

from typing import Literal

from .dtypes import BF16, F16, F32, F64, S8, S16, S32, U8, DType
from .errors import InternalError
from .records import dataclass
from .target import GemmTile, Target

Instruction = Literal["fma", "dot2", "dot4"]


@dataclass(frozen=True)
class Contraction:
    """The types of A, B, the accumulator and the result of a product."""

    a: DType
    b: DType
    accumulator: DType
    result: DType

    def __str__(self) -> str:
        return f"{self.a} x {self.b} -> {self.accumulator} -> {self.result}"


def multiplied_as(a: DType, b: DType, k_group: int) -> tuple[DType, DType]:
    """The types that A and B are converted to where `k_group` neighboring k are multiplied at once.

    That of the sums one at a time. Of integers in pairs s16: the sums of two products fit s32. Else their own.
    """
    if k_group == 1:
        return (accumulator_of(a, b),) * 2
    return (S16, S16) if k_group == 2 and not b.is_float else (a, b)


def accumulator_of(a: DType, b: DType) -> DType:
    """The accumulator for products of two types: at least f32 for floats, s32 for integers of 8 and 16 bits."""
    widest = max((a.accumulator, b.accumulator), key=lambda dtype: dtype.bits)
    is_small = not widest.is_float and widest.bits in (8, 16)
    return S32 if is_small else widest


@dataclass(frozen=True)
class Microkernel:
    """How one pair of operand types is multiplied on one ISA, if the CPU has what it `needs`.

    `fma`: a row of B times an element of A. `dot2` and `dot4` take `k_group` neighboring k at once from panels with
    that many k innermost (`NK16n4k`). B is converted to the type it is multiplied in when it is loaded, A by templates,
    once per block. `tiles` are the register tiles worth using; `rate_name` is the field of the
    machine's `Rates` that holds its rate, "" for that of f32.
    """

    a: DType
    b: DType
    instruction: Instruction
    tiles: tuple[GemmTile, ...]
    needs: tuple[str, ...] = ()
    rate_name: str = ""

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
        """The type that B is multiplied in, and that of panels it is packed into when the product runs."""
        return multiplied_as(self.a, self.b, self.k_group)[1]

    @property
    def converts_a(self) -> bool:
        """Return whether templates convert A before they multiply."""
        return self.a != self.copied_a

    @property
    def k_group(self) -> int:
        """Neighboring k that one instruction takes."""
        return {"fma": 1, "dot2": 2, "dot4": 4}[self.instruction]


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
# 128-bit vectors on any LLVM target: 4x2 = 8 accumulators leave room for separate multiply and add.
_ANY = (GemmTile(4, 2), GemmTile(8, 1))
# Without VNNI a product needs a separate register: 6x2 = 12 + 2 + 1 + a product = 16.
_NARROW_PAIRS = (GemmTile(6, 2), GemmTile(12, 1))


def _floats(
    tiles: tuple[GemmTile, ...], converting: tuple[GemmTile, ...]
) -> tuple[Microkernel, ...]:
    """The rows of floats that are multiplied in the accumulator's type; `converting`: B is, when it is loaded."""
    return (
        Microkernel(F32, F32, "fma", tiles),
        Microkernel(F64, F64, "fma", tiles, rate_name="f64_fma"),
        Microkernel(F16, F16, "fma", converting),
        Microkernel(BF16, BF16, "fma", converting),
    )


def _pairs(tiles: tuple[GemmTile, ...]) -> tuple[Microkernel, ...]:
    """The rows of integers that are multiplied in pairs of 16 bits, which nothing saturates."""
    return tuple(
        Microkernel(a, b, "dot2", tiles, (), "s16_dot2")
        for a, b in ((S16, S16), (U8, S8), (S8, S8), (U8, S16), (S8, S16))
    )


MICROKERNELS: dict[str, tuple[Microkernel, ...]] = {
    "avx512": (
        Microkernel(BF16, BF16, "dot2", _WIDE, ("avx512bf16",), "bf16_dot2"),
        *_floats(_WIDE, _WIDE),
        Microkernel(U8, S8, "dot4", _WIDE, ("avx512vnni",), "u8s8_dot4"),
        Microkernel(S8, S8, "dot4", _WIDE, ("avx512vnni",), "s8s8_dot4"),
        *_pairs(_WIDE),
    ),
    "avx2": (
        *_floats(_NARROW, _NARROW_CONVERTING),
        Microkernel(U8, S8, "dot4", _NARROW, ("avxvnni",), "u8s8_dot4"),
        *_pairs(_NARROW_PAIRS),
    ),
    "generic": (*_floats(_ANY, _ANY), *_pairs(_ANY)),
}
"""The rows of an ISA, preferred first."""


def microkernels(a: DType, b: DType, target: Target) -> tuple[Microkernel, ...]:
    """Return the rows for two operand types that the target can use, one per instruction, preferred first.

    It can use those whose features it has, but none that groups k where `fma` on the same types is faster.
    """
    found: dict[str, Microkernel] = {}
    for row in MICROKERNELS[target.isa]:
        if (row.a, row.b) == (a, b) and target.has(*row.needs):
            found.setdefault(row.instruction, row)
    floor = found["fma"].rate(target) if "fma" in found else 0.0
    return tuple(row for row in found.values() if row.rate(target) >= floor)


def find_microkernel(
    a: DType, b: DType, target: Target, grouped: bool = True
) -> Microkernel | None:
    """The preferred row for two operand types; None when there is none.

    Not `grouped`: of those that take one k at a time, which read B in any layout.
    """
    rows = microkernels(a, b, target)
    return next((x for x in rows if grouped or x.k_group == 1), None)


def microkernel(a: DType, b: DType, target: Target, grouped: bool = True) -> Microkernel:
    """`find_microkernel` for types that are known to have a row. InternalError when there is none."""
    found = find_microkernel(a, b, target, grouped)
    if found is None:
        raise InternalError(f"no microkernel multiplies {a} by {b} on {target.isa}")
    return found


def f32_kernel(target: Target) -> Microkernel:
    """The row of f32 products, which most templates use."""
    return microkernel(F32, F32, target)


def f32_tiles(target: Target) -> tuple[GemmTile, ...]:
    """The register tiles of f32 products."""
    return f32_kernel(target).tiles


def product_rates(target: Target) -> dict[str, str]:
    """What multiplies each pair of types on a target: `{"u8xs8": "dot4, 3.6 x f32"}`."""
    pairs = dict.fromkeys((row.a, row.b) for row in MICROKERNELS[target.isa])
    rows = [microkernel(a, b, target) for a, b in pairs]
    return {f"{x.a}x{x.b}": f"{x.instruction}, {x.rate(target):g} x f32" for x in rows}
