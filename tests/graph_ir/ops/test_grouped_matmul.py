"""grouped_matmul: values against a matmul of each row, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.errors import UserError
from support.check_op import make_op

RNG = np.random.default_rng(5)
A = RNG.standard_normal((9, 6))
B = RNG.standard_normal((4, 2, 6, 3))


@pytest.mark.parametrize(
    ("ends", "groups"),
    [
        ([2, 2, 7, 9], [0, 0, 2, 2, 2, 2, 2, 3, 3]),
        ([0, 4, 3, 6], [1, 1, 1, 1, 3, 3, None, None, None]),  # an end before the last one is none
        ([-5, 0, 99, 3], [2] * 9),
    ],
)
def test_rows_of_groups(ends: list[int], groups: list[int | None]) -> None:
    at = np.array(ends, np.int64)
    (c,) = make_op("grouped_matmul", [A, B, at]).reference([A, B, at])
    for row, group, found in zip(A, groups, c, strict=True):
        wanted = 0 if group is None else np.concatenate([row @ panel for panel in B[group]])
        np.testing.assert_allclose(found, np.broadcast_to(wanted, 6), atol=1e-12)


def test_what_is_refused() -> None:
    ends = np.zeros(4, np.int64)
    for a, b, at, wanted in (
        (A, B, ends.astype(np.int16), "a and b must be f32 or f64, ends s32 or s64"),
        (A, B[0], ends, r"a must be \[rows, k\], b \[groups, panels, k, width\]"),
        (A[:, :5], B, ends, "k and the number of groups must agree"),
    ):
        with pytest.raises(UserError, match=wanted):
            make_op("grouped_matmul", [a, b, at])
