"""grouped_matmul: values against a matmul of each row, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.errors import UserError
from support.check_op import make_op

RNG = np.random.default_rng(5)
A = RNG.standard_normal((9, 6))
B = RNG.standard_normal((4, 2, 6, 3))


def test_rows_of_experts_and_of_none() -> None:
    expert = np.array([0, 0, 2, 2, 1, 3, -1, 4, 99])
    (c,) = make_op("grouped_matmul", [A, B, expert]).reference([A, B, expert])
    for row, number, found in zip(A, expert, c, strict=True):
        wanted = np.concatenate([row @ one for one in B[number]]) if 0 <= number < 4 else 0
        np.testing.assert_allclose(found, np.broadcast_to(wanted, 6), atol=1e-12)


def test_what_is_refused() -> None:
    expert = np.zeros(9, np.int64)
    for a, b, at, wanted in (
        (A, B, expert.astype(np.int32), "a and b must be f32 or f64, expert s64"),
        (A, B[0], expert, r"a must be \[rows, k\], b \[experts, panels, k, width\]"),
        (A[:, :5], B, expert, "k and the number of rows must agree"),
        (A, B, expert[:8], "k and the number of rows must agree"),
    ):
        with pytest.raises(UserError, match=wanted):
            make_op("grouped_matmul", [a, b, at])
