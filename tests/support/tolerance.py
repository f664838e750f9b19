"""The tolerance of a result by dtype: one table for every test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.base import dtypes


@dataclass(frozen=True)
class Tolerance:
    """|actual - expected| <= absolute + relative * |expected|."""

    relative: float
    absolute: float


# About 8 units in the last index for one op computed in the type (16-bit: in f32, rounded once, so 1).
# Integers and bool have no entry: they must be equal.
TOLERANCES = {
    "f64": Tolerance(2e-15, 1e-15),
    "f32": Tolerance(1e-6, 1e-6),
    "f16": Tolerance(1e-3, 1e-5),
    "bf16": Tolerance(8e-3, 1e-5),
}


def assert_close(actual: Any, expected: Any, factor: float = 1.0) -> None:
    """Fail unless `actual` equals `expected` in shape and, within its dtype's tolerance, in value.

    `factor` scales the tolerance where errors add up, say sqrt(K) for a sum over K. NaN equals NaN, infinities must
    agree, integers must be equal. The failure names the worst element.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    tolerance = TOLERANCES.get(dtypes.from_numpy(actual.dtype).name)
    if tolerance is None:
        np.testing.assert_array_equal(actual, expected)
        return
    got, want = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):  # inf - inf, inf / inf: decided by `same` and `isfinite`
        error = np.abs(got - want)
        limit = factor * (tolerance.absolute + tolerance.relative * np.abs(want))
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        bad = ~(same | (np.isfinite(want) & (error <= limit)))
        ratio = np.where(bad, np.nan_to_num(error / limit, nan=np.inf), -1.0)
    if bad.any():
        worst = np.unravel_index(np.argmax(ratio), ratio.shape)
        index = [int(i) for i in worst]
        raise AssertionError(
            f"{int(bad.sum())} of {bad.size} elements differ; worst at {index}: "
            f"got {got[worst]!r}, expected {want[worst]!r}, allowed error {limit[worst]:.3g}"
        )
