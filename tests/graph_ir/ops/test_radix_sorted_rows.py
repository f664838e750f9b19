"""sort_rows: shapes, values, and what it refuses."""

import numpy as np
import pytest

from graphc.base.errors import UserError
from support.check_op import make_op


def test_values_and_indices() -> None:
    x = np.array([[3, 1, 2, 3], [0, 9, 9, 1]], np.int32)
    op = make_op("sort_rows", [x], {"k": 3})
    assert [str(y.details) for y in op.outputs] == ["s32[2,3]", "s64[2,3]"]
    values, indices = op.reference([x])
    assert values.tolist() == [[3, 3, 2], [9, 9, 1]] and indices.tolist() == [[0, 3, 2], [1, 2, 3]]
    values, indices = make_op("sort_rows", [x], {"k": 2, "largest": False}).reference([x])
    assert values.tolist() == [[1, 2], [0, 1]] and indices.tolist() == [[1, 2], [0, 3]]


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match=r"^sort_rows 'x': k must be in \[0, 4\], got 5"):
        make_op("sort_rows", [np.zeros((2, 4), np.float32)], {"k": 5})
    with pytest.raises(UserError, match="the input must have rows"):
        make_op("sort_rows", [np.zeros((), np.float32)], {"k": 0})
