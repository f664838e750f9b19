"""cached_attention: its reference against plain attention of one query, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.errors import UserError
from support.check_op import make_op

RNG = np.random.default_rng(5)
Q = RNG.standard_normal((2, 3, 4, 8)).astype(np.float32)
K = RNG.standard_normal((2, 2, 9, 8)).astype(np.float32)
V = RNG.standard_normal((2, 2, 9, 5)).astype(np.float32)
LENGTHS = np.array([9, 4])


@pytest.mark.parametrize(
    "attrs", [{}, {"scale": 0.3, "window": 2}, {"cap": 0.5}, {"window": 100, "scale": 2.0}]
)
def test_each_query_sees_the_keys_up_to_its_own(attrs: dict[str, Any]) -> None:
    arrays = [Q, K, V, LENGTHS]
    (y,) = make_op("cached_attention", arrays, attrs).reference(arrays)
    for b, t, h in np.ndindex(2, 3, 4):
        end = LENGTHS[b] - 3 + t + 1
        seen = slice(max(end - (attrs.get("window") or end), 0), end)
        scores = K[b, h // 2, seen].astype(np.float64) @ Q[b, t, h] * attrs.get("scale", 1.0)
        if "cap" in attrs:
            scores = attrs["cap"] * np.tanh(scores / attrs["cap"])
        shares = np.exp(scores - scores.max())
        wanted = shares / shares.sum() @ V[b, h // 2, seen]
        np.testing.assert_allclose(y[b, t, h], wanted, atol=1e-6)


def test_bytes_are_multiplied_by_their_scales() -> None:
    levels = [RNG.integers(-127, 128, x.shape).astype(np.int8) for x in (K, V)]
    scales = [RNG.uniform(0.01, 0.02, (2, 2, 9, n)).astype(np.float32) for n in (4, 1)]
    floats = [
        x * np.repeat(s, x.shape[3] // s.shape[3], 3) for x, s in zip(levels, scales, strict=True)
    ]
    arrays = [Q, *levels, LENGTHS, *scales]
    (y,) = make_op("cached_attention", arrays).reference(arrays)
    wide = [Q, *floats, LENGTHS]
    (wanted,) = make_op("cached_attention", wide).reference(wide)
    np.testing.assert_allclose(y, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ([Q.astype(np.float64), K, V, LENGTHS], "q must be f32"),
        ([Q, K, V.astype(np.float16), LENGTHS], "keys and values of one type"),
        ([Q, K[0], V, LENGTHS], "must have 4 axes"),
        ([Q, K[..., :7], V, LENGTHS], "the sizes of q, keys and values must agree"),
        ([Q, K[:, :, :8], V, LENGTHS], "the sizes of q, keys and values must agree"),
        ([Q, K, V, LENGTHS[:1]], "a length for each sequence"),
        ([Q[:, :, :3], K, V, LENGTHS], "heads must be a multiple"),
        ([Q, K.astype(np.int8), V.astype(np.int8), LENGTHS], "must have scales"),
        ([Q, K, V, LENGTHS, K[..., :1], V[..., :1]], "must have scales"),
        ([Q, K.astype(np.int8), V.astype(np.int8), LENGTHS, K[..., :3], V[..., :1]], "groups of one size"),
    ],
)  # fmt: skip
def test_what_is_refused(operands: list[Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_op("cached_attention", operands)
