"""The cost model of Winograd convolutions: what it may choose from, and in which direction it leans."""

import math
from dataclasses import replace

import pytest

from graphc.graph_ir.nest.convolution_geometry import ConvolutionGeometry
from graphc.graph_ir.ops.winograd_form import F2, F4
from graphc.graph_ir.schedule.winograd_tile import WinogradGemm
from graphc.targets.isa import Target
from graphc.targets.machines import ZEN5
from graphc.targets.microkernels import f32_tiles

AVX512 = Target("avx512", l2_bytes=1 << 20)


def layer(channels: int, size: int) -> ConvolutionGeometry:
    return ConvolutionGeometry(
        1, 1, channels, channels, (size, size), (size, size), (3, 3), before=(1, 1)
    )


def test_tiles_cover_the_image() -> None:
    assert WinogradGemm(layer(16, 7), F4, AVX512).tiles == 4
    assert WinogradGemm(layer(16, 7), F2, AVX512).tiles == 16


@pytest.mark.parametrize("channels", [3, 64, 512, 4096])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_candidate_fits_the_stack_and_covers_all_tiles(channels: int, threads: int) -> None:
    g = layer(channels, 28)
    for tile in f32_tiles(AVX512):
        found = WinogradGemm(g, F4, AVX512, threads).candidates(tile)
        assert found
        for blocking in found:
            small = blocking.block * blocking.chunk == 1
            assert small or blocking.local_bytes(g, AVX512) <= ZEN5.max_local_bytes
            assert 1 <= blocking.block <= WinogradGemm(g, F4, AVX512).tiles
        assert WinogradGemm(g, F4, AVX512, threads).pick(tile) in found


@pytest.mark.parametrize("size", [2000, 40000])
def test_images_of_many_blocks_have_candidates(size: int) -> None:
    g = layer(8, size)
    for tile in f32_tiles(AVX512):
        blocks = {b.block for b in WinogradGemm(g, F4, AVX512, 1).candidates(tile)}
        assert max(blocks) > 200, "the most that fit"
        assert min(blocks) < max(blocks) / 8, "and some that leave room in L2"


def test_threads_get_work_each() -> None:
    for size, channels in ((56, 64), (14, 256), (7, 512)):
        g = layer(channels, size)
        tile, _ = WinogradGemm(g, F2, AVX512).ranked_tiles()[0]
        blocking = WinogradGemm(g, F2, AVX512, 2).pick(tile)
        assert math.ceil(WinogradGemm(g, F2, AVX512).tiles / blocking.block) * blocking.groups >= 2


@pytest.mark.parametrize(("channels", "size"), [(128, 28), (256, 14)])
def test_what_does_not_fit_l2_is_not_read_again(channels: int, size: int) -> None:
    """V of many images: the tenth of the time that waiting for it took is saved by lower blocks of all panels."""
    g = replace(layer(channels, size), batch=16)
    tile, _ = WinogradGemm(g, F4, AVX512).ranked_tiles()[0]
    assert WinogradGemm(g, F4, AVX512, 1).pick(tile).chunk == channels // tile.columns(AVX512)


def test_large_tiles_win_on_large_images_only() -> None:
    def best(g: ConvolutionGeometry) -> str:
        costs = {form: WinogradGemm(g, form, AVX512).ranked_tiles()[0][1] for form in (F2, F4)}
        return min(costs, key=lambda form: costs[form]).name

    assert best(layer(64, 56)) == "f4"
    assert best(layer(512, 7)) == "f2", "four tiles of 6 x 6 stream 38 MB of weights"


def test_cycles_are_those_of_the_best_blocking() -> None:
    g = layer(64, 56)
    gemm = WinogradGemm(g, F4, AVX512)
    tile, cycles = gemm.ranked_tiles()[0]
    assert cycles == gemm.cycles(gemm.pick(tile))
    assert cycles < 9 * 64 * 64 * 56 * 56 / 32, "fewer than the direct form at peak"
