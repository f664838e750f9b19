from __future__ import annotations

import itertools

import numpy as np
import pytest

from graphc.graph_ir.ops.window import Window


def windows(size):
    """Every window of a grid that fits into `size` elements."""
    for k, s, d, b, a in itertools.product((1, 2, 3), (1, 2, 3), (1, 2), (0, 1, 2), (0, 1)):
        for ceil_mode in (False, True):
            if (k - 1) * d + 1 <= size + b + a:
                yield Window((k,), (s,), (d,), (b,), (a,), ceil_mode)


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_positions_begin_and_end_inside_the_padding(size):
    for window in windows(size):
        (b,), (a,), (extent,), (step,) = window.before, window.after, window.extents, window.strides
        if (
            window.ceil_mode
        ):  # a window counts if it begins in x and the one before it left something
            inside = [p for p in range(0, size + b, step) if p + extent - step < size + b + a]
        else:
            inside = list(range(0, size + b + a - extent + 1, step))
        assert window.output_sizes((size,)) == (len(inside),), window
        assert window.ends((size,)) == (inside[-1] + extent - b - size,), window


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_view_reads_the_fill_outside(size):
    x = np.arange(1, size + 1)
    for window in windows(size):
        view = window.view(x, -1)
        for pixel, k in np.ndindex(*view.shape):
            at = pixel * window.strides[0] + k * window.dilations[0] - window.before[0]
            assert view[pixel, k] == (x[at] if 0 <= at < size else -1), window


def test_padded_or_not():
    assert Window((2,), (1,), (1,), (0,), (1,)).is_padded
    assert Window((2,), (2,), (1,), (0,), (0,), ceil_mode=True).is_padded
    assert not Window((2,), (2,), (1,), (0,), (0,)).is_padded
