"""The distribution of random graphs: element types, sizes, number of ops, ops and values."""

from __future__ import annotations

from ...base.dtypes import BF16, BOOL, F16, F32, F64, S8, S32, S64, U8, USUAL, DType
from ...base.records import dataclass

SIZES = (
    *((1, 14), (2, 12), (3, 12), (4, 8), (5, 8), (7, 8), (8, 6), (6, 4), (11, 3), (13, 3), (0, 1)),
    *((9, 3), (15, 3), (16, 4), (17, 4), (31, 2), (32, 2), (33, 3), (47, 1), (64, 1), (65, 1)),
)
"""Sizes of axes and how often: 0 and 1, primes, and what lies around the lanes of every vector."""

_USUAL = ((F32, 40), (F64, 8), (F16, 6), (BF16, 6), (S32, 8), (S64, 6), (U8, 5), (S8, 4), (BOOL, 4))
DTYPES = (*_USUAL, *((dtype, 2) for dtype in USUAL if dtype not in dict(_USUAL)))
"""Element types and how often."""

FILLS = (("integers", 45), ("uniform", 30), ("normal", 15), ("special", 10))
"""Values of inputs: small integers, whose sums are exact; [-4, 4); a bell curve; those with inf, NaN and -0."""


@dataclass(frozen=True)
class Plan:
    """Limits of the graphs that are made.

    `ops`: names of recipes that may be used, none for all; `max_ops`: ops of one graph beside what a recipe adds at
    once; `max_elements`: elements of one tensor; `dtypes`, `sizes`, `fills`: (what, how often). `strays`: whether an
    index now and then lies outside of its axis, and a float outside of the integers that it is converted to; other
    engines have errors and other numbers for these.
    """

    ops: frozenset[str] | None = None
    max_ops: int = 6
    max_elements: int = 6000
    max_rank: int = 5
    dtypes: tuple[tuple[DType, int], ...] = DTYPES
    sizes: tuple[tuple[int, int], ...] = SIZES
    fills: tuple[tuple[str, int], ...] = FILLS
    strays: bool = True


EVERYTHING = Plan()
