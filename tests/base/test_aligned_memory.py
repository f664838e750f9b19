"""Arrays aligned to a given number of bytes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from graphc.base.aligned_memory import HUGE_PAGE, aligned_copy, aligned_empty, large_alignment


@pytest.mark.parametrize("alignment", [1, 64, 4096, HUGE_PAGE])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (7, 13)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex128", ml_dtypes.bfloat16])
def test_aligned_empty(shape: tuple[int, ...], dtype: str, alignment: int) -> None:
    array = aligned_empty(shape, np.dtype(dtype), alignment)
    assert array.shape == shape
    assert array.dtype == np.dtype(dtype)
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert array.ctypes.data % alignment == 0
    array[...] = 1
    assert np.array_equal(array, np.ones(shape, dtype))


def test_aligned_copy_keeps_what_is_aligned() -> None:
    array = aligned_empty((5, 7), np.dtype(np.float32))
    array[...] = np.arange(35).reshape(5, 7)
    assert aligned_copy(array) is array
    for view in (array.T, array[:, 1:], array[1:]):
        copy = aligned_copy(view)
        assert copy.ctypes.data % 64 == 0
        assert copy.flags.c_contiguous
        assert np.array_equal(copy, view)


def test_large_buffers_start_on_a_huge_page() -> None:
    assert large_alignment(0) == large_alignment(HUGE_PAGE) == 64
    assert large_alignment(2 * HUGE_PAGE) == HUGE_PAGE
