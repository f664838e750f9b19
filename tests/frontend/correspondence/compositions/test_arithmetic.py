"""Functions of one element that HLO's table composes of several ops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from graphc.base.dtypes import by_name
from support.hlo_text import one_op, run


def _half_away(x: np.ndarray) -> np.ndarray:
    return np.trunc(x + np.copysign(0.5, x))


@pytest.mark.parametrize(
    ("call", "meaning"), [("cbrt(p0)", np.cbrt), ("round-nearest-afz(p0)", _half_away)]
)
@pytest.mark.parametrize(
    "name", ["f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f4e2m1fn", "f8e8m0fnu", "f16", "bf16"]
)
def test_a_small_float_is_rounded_once_at_the_end(
    name: str, call: str, meaning: Callable[[np.ndarray], np.ndarray]
) -> None:
    dtype = by_name(name)
    words = np.arange(1 << min(dtype.bits, 8), dtype=np.uint8)
    every = (words.astype(np.float32) / 16 if dtype.bits > 8 else words.view(dtype.numpy)).astype(
        dtype.numpy
    )
    every = every[np.isfinite(every.astype(np.float32))]
    if name == "f8e8m0fnu":  # has no 0 to round to
        every = every[every.astype(np.float32) >= 1]
    kind = f"{name}[{len(every)}]"
    (got,) = run(one_op([kind], kind, call), every)
    wanted = meaning(every.astype(np.float64)).astype(np.float32).astype(dtype.numpy)
    assert np.array_equal(got.astype(np.float32), wanted.astype(np.float32))
