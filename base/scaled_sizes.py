"""Sizes times numbers that are not fractions, as images are resized by: rounded as floats are, then down."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from .dims import Derived, Dim, Size, floor_quotient

_FLOATS: dict[int, Any] = {32: np.float32, 64: np.float64}

_MAX_DENOMINATOR = 64
"""The greatest denominator of a factor that scales sizes exactly, in f32 too."""


class Scaled(Derived):
    """A size times a number, computed in f64 or f32 and rounded down: `floor(H*0.57)`, `floor(H*0.57f)`."""

    __slots__ = ()

    def __init__(self, value: Dim, factor: float, bits: int) -> None:
        number = repr(factor) if bits == 64 else f"{np.float32(factor)!s}f"
        text = str(value)
        name = f"floor({text if text.isidentifier() else f'({text})'}*{number})"
        super().__init__(name, value, factor, bits)

    def rule(self, *numbers: Any) -> int:
        """Round the floating-point result down."""
        value, factor, bits = numbers
        return int(np.floor(_FLOATS[bits](value) * _FLOATS[bits](factor)))

    def of(self, *operands: Any) -> Size:
        """`scaled` of another expression."""
        return scaled(*operands)


def scaled(value: Size, factor: float, bits: int = 64) -> Any:
    """A size times a factor from 0, computed in f64 or f32 and rounded down.

    By a short fraction it is exact, and so a quotient.
    """
    if not isinstance(value, Dim):
        return int(np.floor(_FLOATS[bits](value) * _FLOATS[bits](factor)))
    exact = Fraction(factor)
    if exact.denominator <= _MAX_DENOMINATOR:
        return floor_quotient(value * exact.numerator, exact.denominator)
    return Dim({(Scaled(value, factor, bits),): 1})
