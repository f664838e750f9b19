"""The cost model of tiles and blocks."""

import math
from dataclasses import replace

import pytest

from graphc.base.dtypes import BF16, F16
from graphc.graph_ir.schedule.cost import Gemm, gemm_cycles
from graphc.graph_ir.schedule.matmul_tile import (
    candidate_blockings,
    extra_bytes,
    pick_blocking,
    pick_tile,
    ranked_tiles,
    tiles_for_any_rows,
)
from graphc.targets.isa import GemmTile, Target
from graphc.targets.machines import ZEN5
from graphc.targets.microkernels import f32_kernel, microkernel
from graphc.tensor_ir.tiling import k_splits, split_rows

AVX2, AVX512 = Target("avx2"), Target("avx512")


def f32(batch: int, m: int, n: int, k: int, target: Target, threads: int = 1) -> Gemm:
    return Gemm(batch, m, n, k, f32_kernel(target), target, threads)


def best_tile(gemm: Gemm) -> GemmTile:
    return pick_tile(gemm.m, gemm.n, gemm.target, gemm.kernel)


@pytest.mark.parametrize("rows", [1, 4, 6, 14])
@pytest.mark.parametrize("m", [1, 2, 5, 6, 7, 13, 128, 1021])
def test_row_tiles_cover_every_row_once(m: int, rows: int) -> None:
    covered: list[int] = []
    for first, count, height in split_rows(m, rows):
        assert 1 <= height <= rows and count >= 1
        covered.extend(range(first, first + count * height))
    assert covered == list(range(m))


def test_a_remainder_is_shared_with_the_last_full_tile() -> None:
    assert split_rows(128, 6) == [(0, 20, 6), (120, 2, 4)]
    assert split_rows(13, 6) == [(0, 1, 6), (6, 1, 4), (10, 1, 3)]


def test_small_tiles_split_k() -> None:
    assert [k_splits(*tile) for tile in ((1, 1), (1, 2), (2, 3), (4, 3))] == [4, 4, 1, 1]


def test_narrow_matmuls_take_the_narrow_tile() -> None:
    assert best_tile(f32(1, 128, 7, 1, AVX2)).columns(AVX2) == 8
    assert best_tile(f32(1, 1024, 1024, 1, AVX512)).columns(AVX512) >= 32


def test_the_best_tile_costs_nothing_extra() -> None:
    gemm = f32(1, 100, 100, 10, AVX2)
    cycles = [gemm_cycles(100, 100, tile, AVX2, gemm.kernel) for tile in gemm.kernel.tiles]
    for tile, its in zip(gemm.kernel.tiles, cycles, strict=True):
        assert (extra_bytes(gemm, tile) == 0) == (its == min(cycles))


def test_blocks_fit_the_cache_and_the_threads() -> None:
    gemm = f32(1, 1024, 1024, 8192, AVX2)
    tile = best_tile(gemm)
    blocking = pick_blocking(gemm, tile)
    assert blocking.k_block * tile.columns(AVX2) * 4 <= AVX2.l2_bytes // 4
    rounded = tile.rows - 1  # whole register tiles
    assert (blocking.m_block - rounded) * blocking.k_block * 4 <= AVX2.l2_bytes
    skinny = pick_blocking(f32(1, 4, 1024, 64, AVX2, 2), tile)
    assert skinny.n_groups == 2, "one block of rows: the panels are split instead"


def test_candidates_start_with_the_pick_and_do_not_repeat() -> None:
    gemm = f32(1, 64, 64, 300, AVX2)
    found = candidate_blockings(gemm, best_tile(gemm))
    assert found[0] == pick_blocking(gemm, best_tile(gemm))
    assert len(set(found)) == len(found) > 3


def test_two_threads_have_halves_to_choose() -> None:
    gemm = f32(1, 32, 256, 512, AVX512, 2)
    found = candidate_blockings(gemm, best_tile(gemm))
    assert {16, 32} <= {blocking.m_block for blocking in found}
    assert {1, 2} == {blocking.n_groups for blocking in found}


@pytest.mark.parametrize("sizes", [(512, 1024, 1024), (1024, 1024, 1024), (2048, 2048, 2048)])
@pytest.mark.parametrize("threads", [2, 3, 4])
def test_threads_get_equal_shares(sizes: tuple[int, int, int], threads: int) -> None:
    gemm = f32(1, *sizes, Target("avx512", l2_bytes=1 << 20), threads)
    blocking = pick_blocking(gemm, best_tile(gemm))
    assert math.ceil(gemm.m / blocking.m_block) * blocking.n_groups % threads == 0


def test_few_rows_are_not_shared_but_the_panels_are() -> None:
    """Threads that share rows read all of B each."""
    gemm = f32(1, 32, 1024, 1024, Target("avx512", l2_bytes=1 << 20), 2)
    blocking = pick_blocking(gemm, best_tile(gemm))
    assert (blocking.m_block, blocking.n_groups) == (32, 2)


@pytest.mark.parametrize("depth", [512, 1024])
def test_any_number_of_rows_is_cut_as_few_rows_want_it(depth: int) -> None:
    """Three rows of two vectors are too few sums for the latency of multiply-adds; every tile has the same blocks."""
    gemm = f32(1, 64, 512, depth, Target("avx512", l2_bytes=1 << 20))
    assert best_tile(gemm).vectors == 2
    assert tiles_for_any_rows(gemm)[0].vectors == 3
    assert {pick_blocking(gemm, tile).k_block for tile in gemm.kernel.tiles} == {512}


@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
def test_vectors_that_are_converted_when_loaded_serve_more_rows(dtype) -> None:
    """Conversions share a port with multiply-adds: with 4x3, one for every two of them."""
    tile = pick_tile(128, 768, AVX2, microkernel(dtype, dtype, AVX2))
    assert tile.rows == 6 > pick_tile(128, 768, AVX2, f32_kernel(AVX2)).rows


def test_loads_that_are_not_hidden_favor_the_tile_with_the_fewest() -> None:
    """8 x 3 and 11 x 2 take 128 x 768 in as many multiply-adds; the first has 11 loads for 24, the other 13 for 22."""
    slow = replace(ZEN5, load_cycles=0.2)
    tiles = [
        ranked_tiles(128, 768, replace(AVX512, machine=machine), f32_kernel(AVX512))[0]
        for machine in (ZEN5, slow)
    ]
    assert [(x.rows, x.vectors) for x in tiles] == [(11, 2), (8, 3)]
