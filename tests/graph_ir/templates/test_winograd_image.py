"""Addresses of pixels and of the planes of points of a Winograd convolution."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.graph_ir.templates.winograd_image import Image, Line, Planes
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Buffer, Const


def test_pixels_lie_channels_last() -> None:
    image = Image(Buffer("x", F32, (2 * 5 * 7 * 3,)), 5, 7, 3)
    for position in ((0, 0, 0), (1, 4, 6), (1, 2, 3)):
        offset = image.offset(*map(t.as_expr, position))
        assert offset == t.as_expr(int(np.ravel_multi_index((*position, 0), (2, 5, 7, 3))))


@pytest.mark.parametrize(("tiles", "columns"), [(1, 1), (11, 16), (7, 33)])
def test_rows_of_all_planes_are_apart_and_inside(tiles: int, columns: int) -> None:
    planes = Planes.allocate(t.LoopBuilder(), "v", 16, tiles, columns, F32)
    positions = [planes.index(p, t.as_expr(i), t.ZERO) for p in range(16) for i in range(tiles)]
    starts = sorted(x.value for x in positions if isinstance(x, Const))
    assert len(starts) == 16 * tiles
    assert all(b - a >= columns for a, b in zip(starts, starts[1:], strict=False))
    assert starts[-1] + columns <= planes.buffer.shape[0]


def test_lines_that_are_all_inside_are_not_clamped() -> None:
    line = Line.make(t.LoopBuilder(), t.as_expr(3), 9, clip=False)
    assert line.index == t.as_expr(3) and line.exists == t.const(True)
