"""Arrays computed while a model is read."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.frontend.correspondence.compositions.known import number_range
from graphc.frontend.op_builder import OpBuilder
from graphc.graph_ir.ir.graph import Array, Graph

NODE = OpBuilder(Graph("g"), "Range", "r")


def ranged(*given: float, dtype: str = "int64", is_closed: bool = False) -> Array:
    start, limit, delta = (np.array(value, dtype) for value in given)
    return number_range(NODE, start, limit, delta, is_closed)


@pytest.mark.parametrize(
    ("given", "wanted", "closed"),
    [
        ((0, 5, 2), [0, 2, 4], [0, 2, 4]),
        ((0, 4, 2), [0, 2], [0, 2, 4]),
        ((5, 0, -2), [5, 3, 1], [5, 3, 1]),
        ((3, 3, 1), [], [3]),
        ((3, 0, 1), [], []),
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_ranges(given: tuple[int, ...], wanted: list[int], closed: list[int], dtype: str) -> None:
    for expected, is_closed in ((wanted, False), (closed, True)):
        got = ranged(*given, dtype=dtype, is_closed=is_closed)
        assert got.tolist() == expected and got.dtype == dtype


def test_large_integers_are_exact() -> None:
    first = 2**62
    assert ranged(first, first + 3, 1).tolist() == [first, first + 1, first + 2]


def test_what_is_no_range() -> None:
    with pytest.raises(UserError, match="finite and delta not 0, got 0, 5, 0"):
        ranged(0, 5, 0)
    with pytest.raises(UserError, match="finite"):
        ranged(0, np.inf, 1, dtype="float32")
    with pytest.raises(UserError, match=r"one number each, got int64\[2\], int64\[\], int64\[\]"):
        number_range(NODE, np.zeros(2, np.int64), np.array(1), np.array(1))
