"""The cost model of the direct convolution: which band, tile and blocks it picks, and why."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import BF16, F16, F32, F64, S8, S16, U8, DType
from graphc.driver.compiler import compile
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.nest.convolution_geometry import ConvolutionGeometry
from graphc.graph_ir.schedule.convolution_blocking import (
    ConvolutionChoice,
    _shares,
    candidate_choices,
    ranked_choices,
)
from graphc.graph_ir.schedule.convolution_gemm import ConvolutionGemm
from graphc.targets.isa import Target
from graphc.targets.machines import ZEN5
from graphc.targets.microkernels import microkernel

TARGET = Target("avx512", l1_bytes=48 << 10, l2_bytes=1 << 20)
LAST = ("image", "rows")


def square(channels: int, size: int, outputs: int, kernel: int = 3) -> ConvolutionGeometry:
    sizes, border = (size, size), (kernel // 2,) * 2
    return ConvolutionGeometry(
        1, 1, channels, outputs, sizes, sizes, (kernel, kernel), before=border
    )


def problem(g: ConvolutionGeometry, threads: int = 1, dtype: DType = F32) -> ConvolutionGemm:
    return ConvolutionGemm(g, microkernel(dtype, dtype, TARGET), TARGET, threads)


def best(g: ConvolutionGeometry, threads: int = 1) -> ConvolutionChoice:
    return ranked_choices(problem(g, threads), LAST)[0]


@pytest.mark.parametrize(
    ("geometry", "band"),
    [
        (square(64, 56, 64), "rows"),
        (square(64, 56, 64, 1), "image"),
    ],
)
def test_band(geometry: ConvolutionGeometry, band: str) -> None:
    assert best(geometry).band == band


@pytest.mark.parametrize(
    ("kernel", "outputs", "channels", "band"),
    [(7, 64, 3, "rows"), (3, 32, 3, "image"), (7, 64, 4, "image")],
)
def test_pixels_of_a_part_of_a_group_are_copied_where_they_are_read_often(
    kernel: int, outputs: int, channels: int, band: str
) -> None:
    """First layers of ResNet-50 and MobileNetV2 in bytes: three channels are loaded under masks where they lie."""
    target = replace(TARGET, features="+avx512vnni")
    sizes = (224 + kernel - 2,) * 2, (112, 112)
    geometry = ConvolutionGeometry(
        1, 1, channels, outputs, *sizes, (kernel, kernel), strides=(2, 2)
    )
    p = ConvolutionGemm(geometry, microkernel(U8, S8, target), target)
    assert ranked_choices(p, LAST)[0].band == band


@pytest.mark.parametrize("size", [7, 14, 28, 56])
def test_close_to_the_multiply_adds_on_the_layers_of_resnet(size: int) -> None:
    channels = 64 * 56 // size
    geometry = square(channels, size, channels)
    least = geometry.multiply_adds / 32  # two vectors of 16 a cycle
    assert least < best(geometry).cycles < (1.06 if size > 7 else 1.12) * least


def test_bands_and_panels_fit_the_caches() -> None:
    for size, channels in ((224, 64), (112, 128), (56, 256), (7, 2048)):
        g = square(channels, size, 64)
        blocking = best(g).blocking
        rows = g.span(0, blocking.m_block) * (size + 2) * channels * 4
        weights = g.terms * g.outputs * 4
        assert rows <= TARGET.l2_bytes // 2 or weights > TARGET.l2_bytes // 2
        assert blocking.k_block * blocking.tile.columns(TARGET) * 4 <= TARGET.l2_bytes // 2


def test_a_split_sum_has_steps_of_whole_kernel_rows() -> None:
    k_block = best(square(512, 7, 512)).blocking.k_block
    assert k_block < 9 * 512 and k_block % (3 * 512) == 0


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_sum_does_not_depend_on_threads(threads: int) -> None:
    for g in (square(512, 7, 512), square(64, 56, 64), square(16, 2, 64)):
        one, many = best(g).blocking, best(g, threads).blocking
        assert (one.tile, one.k_block) == (many.tile, many.k_block)


def test_every_thread_has_as_much_to_do() -> None:
    rows = best(square(64, 56, 64), 2).blocking
    assert 56 % rows.m_block == 0 and 56 // rows.m_block % 2 == 0
    few = best(square(512, 7, 512), 2).blocking
    assert (few.m_block, few.n_groups) == (7, 2), "seven rows are not halved, but the panels are"
    assert 512 // few.tile.columns(TARGET) % 2 == 0


def test_weights_that_leave_l2_are_read_once() -> None:
    """One band for the last stage of ResNet-50, though the image takes half of L2."""
    sizes = replace(square(512, 14, 512), strides=(2, 2), result=(7, 7))
    assert best(sizes).blocking.m_block == 7


@pytest.mark.parametrize("threads", [1, 2])
def test_the_pick_is_the_best_candidate_of_its_tile(threads: int) -> None:
    for g in (square(64, 56, 64), square(512, 7, 512), square(256, 14, 1024, 1)):
        candidates = candidate_choices(problem(g, threads), LAST)
        pick = best(g, threads)
        assert len(candidates) > 20 and candidates[0].blocking == pick.blocking
        same = [c for c in candidates if c.blocking.k_block == pick.blocking.k_block]
        same = [c for c in same if c.blocking.tile == pick.blocking.tile and c.band == pick.band]
        assert min(c.cycles for c in same) == same[0].cycles


@pytest.mark.parametrize("threads", [1, 2])
def test_copied_bands_fit_the_stack(threads: int) -> None:
    g = square(128, 112, 128)
    for choice in candidate_choices(problem(g, threads), ("rows",)):
        assert g.span(0, choice.blocking.m_block) * 114 * 128 * 4 <= ZEN5.max_local_bytes


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 56, 97, 100, 1023])
def test_shares_of_rows(rows: int) -> None:
    assert _shares(rows) == sorted({math.ceil(rows / n) for n in range(1, rows + 1)})


def test_many_rows_have_few_shares() -> None:
    """A transposed convolution of stride 10^6 has as many rows: not each of them can be tried."""
    assert len(_shares(10**6)) < 2000


@pytest.mark.parametrize(("dtype", "share"), [(F64, 2.0), (F16, 1.0), (BF16, 0.5)], ids=str)
def test_cycles_by_type(dtype: DType, share: float) -> None:
    """f64 has half the lanes; f16 is converted to f32; bf16 is multiplied in pairs."""
    dots = replace(TARGET, features="+avx512bf16")
    g = square(64, 56, 64)
    typed = ConvolutionGemm(g, microkernel(dtype, dtype, dots), dots)
    cycles = ranked_choices(typed, LAST)[0].cycles
    assert share * 0.95 < cycles / best(g).cycles < share * 1.15


def test_types_of_16_bits_have_sums_of_one_step_and_are_converted_in_a_copy() -> None:
    for dtype in (F16, BF16):
        for g in (square(1024, 7, 512), square(512, 7, 512, 1)):
            for choice in candidate_choices(problem(g, 2, dtype), LAST):
                assert choice.blocking.k_block == g.terms
                assert choice.band != "image"


@pytest.mark.parametrize("g", [square(24, 56, 144, 1), square(32, 28, 192, 1), square(64, 28, 64)])
def test_any_number_of_images_is_cut_for_the_fewest(g: ConvolutionGeometry) -> None:
    """64 are typical, and would be shared whole: one of them would run on one core."""
    choice = best(replace(g, batch=64, fewest=1), threads=2)
    bands = math.ceil(g.result[0] / choice.blocking.m_block)
    assert bands * choice.blocking.n_groups >= 2
    assert choice.blocking.k_block == best(replace(g, batch=64)).blocking.k_block


@pytest.mark.parametrize("image", [(1, 3, 1, 8), (1, 5, 1, 17), (2, 3, 2, 8)])
def test_sums_of_narrow_integers_in_several_tiles(image: tuple[int, ...]) -> None:
    """A row of padding on either side: the terms of one row, in pairs of channels that no s16 holds the sums of."""
    rng = np.random.default_rng(0)
    graph = Graph("narrow")
    x = graph.make_input(LogicalTensor(S16, image), "x")
    w = graph.make_constant(rng.integers(-4, 5, (13, image[1], 3, 3)).astype(np.int16), "w")
    attrs = {"before": (1, 1), "after": (1, 1)}
    graph.make_output(graph.make("convolution", [x, w], attrs).outputs[0])
    given = rng.integers(-9, 9, image).astype(np.int16)
    np.testing.assert_array_equal(compile(graph, threads=1)(given), graph.evaluate([given])[0])
