"""Rows as they are given: the sums of their groups, for one zero point and for many."""

from __future__ import annotations

import pytest

from support.lowered import check_interpreted, context
from support.packed_matmul import packed_matmul


@pytest.mark.exhaustive
@pytest.mark.parametrize("of_bytes", [False, True])
@pytest.mark.parametrize("one_zero", [False, True])
def test_interpreted(of_bytes: bool, one_zero: bool) -> None:
    """Two rows in one tile; more than a tile has, the last panel with one column."""
    for rows in (2, 5):
        graph, _ = packed_matmul(rows, 17, 32, 4, 16, of_bytes, one_zero)
        check_interpreted(graph, context())
