"""Addresses of pixels and planes, positions of tiles, and multiply-adds of either kind of number."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32, S16, DType
from graphc.graph_ir.ops.winograd_form import F4
from graphc.graph_ir.schedule.winograd_tile import WinogradBlocking
from graphc.graph_ir.templates.winograd_tiles import (
    Image,
    WinogradProblem,
    WinogradTiles,
    in_plane,
    planes,
)
from graphc.targets.isa import GemmTile, Target
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Buffer, Const, Var
from graphc.tensor_ir.printer import print_expr


def tiles(target: str = "avx2", step: int = 1) -> WinogradTiles:
    """Tiles of images of 9 x 10 with 20 channels, for 4 x 4 results."""
    image = Image(Buffer("x", F32, (1800,)), 9, 10, 20)
    problem = WinogradProblem(1, image, Buffer("u", F32, (9,)), image, 1, 1, (step, step))
    blocking = WinogradBlocking(F4, GemmTile(4, 2), 2, 1, 1)
    return WinogradTiles(t.LoopBuilder(), problem, blocking, Target(target), None)


@pytest.mark.parametrize(("step", "counts"), [(1, (3, 3)), (2, (4, 4))])
def test_tiles_cover_every_phase(step: int, counts: tuple[int, int]) -> None:
    found = tiles(step=step)
    assert [x == t.as_expr(n) for x, n in zip(found.counts, counts, strict=True)] == [True, True]
    assert (found.panel, found.panels) == (16, 2)


def test_a_tile_behind_a_short_phase_has_no_results() -> None:
    found = tiles(step=2)
    left = [found.results_along(t.as_expr(first), 9, 2) for first in (0, 1, 8, 9)]
    assert left == [t.as_expr(n) for n in (4, 4, 1, 0)]


@pytest.mark.parametrize(
    ("target", "dtype", "factor", "text"),
    [
        ("avx2", F32, 1, "y + x"),
        ("avx2", S16, -1, "y - x"),
        ("avx2", F32, -5, "fma(-5.0, x, y)"),
        ("generic", F32, -5, "y + x * -5.0"),
        ("avx2", S16, -5, "y - x * s16(5)"),
        ("avx2", S16, 4, "y + x * s16(4)"),
    ],
)
def test_multiply_adds(target: str, dtype: DType, factor: int, text: str) -> None:
    value = tiles(target).madd(factor, Var("x", dtype), Var("y", dtype))
    assert print_expr(value) == text


def test_pixels_lie_channels_last() -> None:
    image = Image(Buffer("x", F32, (2 * 5 * 7 * 3,)), 5, 7, 3)
    for position in ((0, 0, 0), (1, 4, 6), (1, 2, 3)):
        offset = image.offset(*map(t.as_expr, position))
        assert offset == t.as_expr(int(np.ravel_multi_index((*position, 0), (2, 5, 7, 3))))


@pytest.mark.parametrize(("tiles", "columns"), [(1, 1), (11, 16), (7, 33)])
def test_rows_of_all_planes_are_apart_and_inside(tiles: int, columns: int) -> None:
    view = planes(t.LoopBuilder(), "v", "k", (16, tiles, columns), F32)
    positions = [in_plane(view, p, t.as_expr(i), t.ZERO) for p in range(16) for i in range(tiles)]
    starts = sorted(x.value for x in positions if isinstance(x, Const))
    assert len(starts) == 16 * tiles
    assert all(b - a >= columns for a, b in zip(starts, starts[1:], strict=False))
    assert starts[-1] + columns <= view.buffer.shape[0]
