"""Results that round to zero are not computed as numbers below the normal ones, which take a CPU 150 cycles."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.codegen.math import MATH
from graphc.codegen.math.exp_f64 import exp_f64
from graphc.codegen.numpy_vector_ops import NumpyVectorOps

FAR = np.array([-200, -1e4, -65504, -3e38], np.float32)
"""Values that masks add to scores, and outliers."""


def test_no_f64_underflows() -> None:
    with np.errstate(all="ignore", under="raise"):
        found = exp_f64(NumpyVectorOps(True).wide, np.array([-2e3, -1e4, -1e300]))
    assert not found.any()


@pytest.mark.parametrize("has_scalef", [True, False])
@pytest.mark.parametrize(
    ("name", "x"),
    [
        ("exp", FAR),
        ("exp_nonpositive", FAR),
        ("exp_weight", np.concatenate([FAR, np.arange(-110, -87.7, 0.1, dtype=np.float32)])),
        ("sigmoid", FAR),
        ("silu", FAR),
        ("softplus", np.concatenate([FAR, -FAR])),
        ("gelu", np.concatenate([FAR, -FAR, np.float32([19, -19, 25, -25])])),
    ],
)
def test_no_result_underflows(name: str, x: np.ndarray, has_scalef: bool) -> None:
    ops = NumpyVectorOps(True, has_scalef=has_scalef)
    with np.errstate(all="ignore", under="raise"):
        found = MATH[name](ops, x)
    positive = name in ("softplus", "gelu")
    np.testing.assert_array_equal(found, np.maximum(x, 0) if positive else np.zeros_like(x))
