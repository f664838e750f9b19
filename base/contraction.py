"""Matmuls by type: operand, accumulator and result types.

A contraction multiplies elements of A and B, adds them up in an accumulator and converts the sum to the result.
"""

from __future__ import annotations

from .dtypes import S16, S32, DType
from .records import dataclass


@dataclass(frozen=True)
class Contraction:
    """The types of A, B, the accumulator and the result of a matmul."""

    a: DType
    b: DType
    accumulator: DType
    result: DType

    def __str__(self) -> str:
        return f"{self.a} x {self.b} -> {self.accumulator} -> {self.result}"


def multiplied_as(a: DType, b: DType, k_group: int) -> tuple[DType, DType]:
    """Return the types that A and B are converted to where `k_group` neighboring k are multiplied at once.

    The accumulator dtype for `k_group` 1; s16 for pairs of integers, because the sum of two such terms fits s32;
    otherwise the storage dtypes.
    """
    if k_group == 1:
        return (accumulator_of(a, b),) * 2
    return (S16, S16) if k_group == 2 and not b.is_float else (a, b)


def accumulator_of(a: DType, b: DType) -> DType:
    """Return the accumulator dtype for two operand types: at least f32 for floats, s32 for integers of 8 and
    16 bits."""
    widest = max((a.accumulator, b.accumulator), key=lambda dtype: dtype.bits)
    is_small = not widest.is_float and widest.bits in (8, 16)
    return S32 if is_small else widest
