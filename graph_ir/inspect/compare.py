"""The tolerance of results against their references, by dtype: one rule for every command and test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dtypes import SMALL, DType, from_numpy
from ...base.records import dataclass

Array = np.ndarray[Any, Any]

TOLERANCE = {"f64": 1e-11, "f32": 1e-4, "f16": 1e-2, "bf16": 6e-2}
TOLERANCE |= {dtype.name: 2.0 ** (1 - dtype.range[0]) for dtype in SMALL if dtype.is_float}
"""Largest error, as a share of the largest finite reference value; integers and bools must be equal."""


@dataclass(frozen=True)
class Difference:
    """Largest absolute error, the same as a share of the largest finite reference value, and the verdict."""

    absolute: float
    relative: float
    ok: bool

    def __str__(self) -> str:
        return f"max error {self.absolute:.2g} ({self.relative:.2g} of the largest value)"


def difference(actual: Array, expected: Array, exact: bool = False) -> Difference:
    """Compare two arrays of one shape and dtype. NaN and infinities must be at the same positions."""
    dtype = from_numpy(expected.dtype)
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return Difference(np.inf, np.inf, False)
    if not expected.size:
        return Difference(0.0, 0.0, True)
    if not dtype.is_float:
        wrong = float(np.max(np.abs(actual.astype(np.float64) - expected.astype(np.float64))))
        return Difference(wrong, wrong, bool(np.array_equal(actual, expected)))
    return _float_difference(actual.astype(np.float64), expected.astype(np.float64), dtype, exact)


def _float_difference(actual: Array, expected: Array, dtype: DType, exact: bool) -> Difference:
    finite = np.isfinite(expected)
    same_specials = np.array_equal(actual[~finite], expected[~finite], equal_nan=True)
    with np.errstate(all="ignore"):
        errors = np.abs(actual[finite] - expected[finite])
    largest = float(np.max(np.abs(expected[finite]), initial=0.0))
    absolute = float(np.max(errors, initial=0.0))
    relative = absolute / largest if largest else absolute
    bound = 0.0 if exact else TOLERANCE[dtype.name]
    return Difference(absolute, relative, bool(same_specials and relative <= bound))


def relative_rms(actual: Sequence[Array], expected: Sequence[Array]) -> float:
    """Root mean square of the differences over that of the expected values, both over all arrays."""
    ours, theirs = (
        np.concatenate([np.ravel(x).astype(np.float64) for x in some])
        for some in (actual, expected)
    )
    with np.errstate(all="ignore"):
        scale = float(np.sqrt(np.mean(theirs**2))) or 1.0
        distance = float(np.sqrt(np.mean((ours - theirs) ** 2))) / scale
    return distance if math.isfinite(distance) else math.inf
