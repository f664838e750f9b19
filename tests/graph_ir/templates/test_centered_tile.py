"""Sums of bytes in 16 bits: exact for the largest levels, bytes and scales, for any number of rows."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.codegen.host import host_supports
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ops.matmul_nbits import MatmulNBits
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.rewriting.kernel_group import group_of
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.matmul_nbits import few_schedules
from graphc.graph_ir.schedule.nbits_instructions import fits_centered
from graphc.targets.isa import Target
from support.centered_matmul import K, centered_matmul, extreme_rows, longest_loop, spills

AVX2 = Target("avx2", "x86-64-v3", "+avx2,+fma")
VNNI = Target("avx512", features="+avx512vnni")


@pytest.mark.parametrize("isa", [x for x in ("avx512", "avx2", "generic") if host_supports(x)])
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6])
def test_largest_sums_of_one_scale_are_exact(bits: int, isa: str) -> None:
    levels = np.zeros((20, K), np.int64)
    levels[::2] = (1 << bits) - 1
    levels[2, ::2] = 0
    for m in (1, 3, 8, 14):
        x = extreme_rows(m)
        graph, arrays = centered_matmul(bits, levels, None, x)
        found = compile_model(graph, target=isa, threads=1, cache=False)(*arrays)
        np.testing.assert_array_equal(found, x.astype(np.int64) @ (levels - (1 << bits - 1)).T)


@pytest.mark.parametrize("isa", [x for x in ("avx512", "avx2", "generic") if host_supports(x)])
@pytest.mark.parametrize("bits", [3, 6])
def test_largest_sums_times_integer_scales_are_exact(bits: int, isa: str) -> None:
    random = np.random.default_rng(0)
    levels = random.choice([0, (1 << bits) - 1], (20, K))
    levels[:2] = [[0], [(1 << bits) - 1]]
    scales = random.choice([-128, -1, 0, 127], (20, K // 16)).astype(np.int8)
    scales[:2] = -128
    for m in (1, 3, 8, 14):
        x = extreme_rows(m)
        graph, arrays = centered_matmul(bits, levels, scales, x)
        wanted = x.astype(np.int64) @ ((levels - (1 << bits - 1)) * np.repeat(scales, 16, 1)).T
        assert np.abs(wanted).max() < 2**25
        found = compile_model(graph, target=isa, threads=1, cache=False)(*arrays)
        np.testing.assert_array_equal(found, wanted.astype(np.float32))


def test_any_number_of_rows_is_exact_and_up_to_four_share_code() -> None:
    random = np.random.default_rng(0)
    levels, x = random.integers(0, 64, (40, K)), random.integers(-127, 128, (14, K)).astype(np.int8)
    scales = random.integers(-128, 128, (40, K // 16)).astype(np.int8)
    graph, (_, factors) = centered_matmul(6, levels, scales, x, is_dynamic=True)
    wanted = x.astype(np.int64) @ ((levels - 32) * np.repeat(scales, 16, 1)).T
    model = compile_model(graph, threads=1, cache=False)
    for m in range(1, 15):
        np.testing.assert_array_equal(model(x[:m], factors[:m]), wanted[:m].astype(np.float32))
    for target, rows in ((AVX2, [[1, 2, 3, 4]]), (VNNI, [[1, 2], *([m] for m in range(3, 9))])):
        ctx = LowerContext(target)
        zeros, row = np.zeros((512, 640), np.int64), np.zeros((1, 640), np.int8)
        planned, _ = centered_matmul(5, zeros, None, row, is_dynamic=True)
        pipeline.run(planned, ctx)
        (op,) = (op for op in planned.ops if isinstance(op, MatmulNBits))
        assert [few for few, _ in few_schedules(op, group_of(op), ctx)] == rows


def test_zero_points_that_are_not_in_the_middle_take_wider_sums() -> None:
    assert fits_centered(5, 16, 32) and fits_centered(6, 32, 16) and fits_centered(4, 0, 32)
    assert not fits_centered(5, 0, 32) and not fits_centered(6, 32, 32)
    assert not fits_centered(8, 128, 4)  # two terms saturate
    levels = np.full((20, K), 31)
    x = np.full((9, K), 127, np.int8)
    graph, arrays = centered_matmul(5, levels, None, x, zero=3)
    found = compile_model(graph, threads=1, cache=False)(*arrays)
    np.testing.assert_array_equal(found, x.astype(np.int64) @ (levels - 3).T)


def test_sums_stay_in_registers() -> None:
    """LLVM would sum terms in pairs and load operands early, which takes 70 spills and 1.3 times as long."""
    loop = longest_loop(5, "vpmaddubsw", AVX2)
    assert loop.count("vpmaddubsw") == 80 and spills(loop) <= 20
