"""The predicted cost of a blocking: work and traffic, tails, and threads that wait for others."""

from __future__ import annotations

import pytest

from graphc.graph_ir.schedule.cost import Gemm, MatmulBlocking, blocking_cycles, gemm_cycles
from graphc.targets.isa import GemmTile, Target
from graphc.targets.machines import ZEN5
from graphc.targets.microkernels import f32_kernel

AVX512 = Target("avx512", l1_bytes=48 << 10, l2_bytes=1 << 20)
TALL, WIDE = GemmTile(14, 2), GemmTile(8, 3)


def cycles(
    sizes: tuple[int, int, int, int],
    blocking: MatmulBlocking,
    threads: int = 1,
    packed: bool = True,
) -> float:
    gemm = Gemm(*sizes, f32_kernel(AVX512), AVX512, threads)
    return blocking_cycles(gemm, blocking, packed)


def test_a_large_matmul_takes_its_multiply_adds() -> None:
    work = 512 * gemm_cycles(480, 480, WIDE, AVX512, f32_kernel(AVX512))
    assert work <= cycles((1, 480, 480, 512), MatmulBlocking(WIDE, 480, 512, 1)) < 1.1 * work


def test_more_blocks_of_k_cost_traffic_of_partial_sums() -> None:
    sizes = (1, 96, 96, 512)
    costs = [cycles(sizes, MatmulBlocking(WIDE, 96, k_block, 1)) for k_block in (512, 256, 128)]
    assert costs == sorted(costs) and len(set(costs)) == 3


def test_unequal_blocks_leave_a_thread_waiting() -> None:
    """32 rows in blocks of 28 and 4: the second thread is done at once."""
    sizes = (1, 32, 256, 512)
    uneven = cycles(sizes, MatmulBlocking(TALL, 28, 512, 1), threads=2)
    even = cycles(sizes, MatmulBlocking(WIDE, 16, 512, 1), threads=2)
    assert uneven > 1.6 * even
    assert even == pytest.approx(
        cycles(sizes, MatmulBlocking(WIDE, 16, 512, 1)) / 2 + ZEN5.open_cycles
    )


def test_groups_of_panels_are_tasks_of_equal_and_unequal_blocks_alike() -> None:
    """The loop over groups is the outer one, so that no block of rows comes between them."""
    sizes = (1, 32, 256, 512)
    alone = cycles(sizes, MatmulBlocking(TALL, 32, 512, 1), threads=2)
    assert cycles(sizes, MatmulBlocking(TALL, 32, 512, 2), threads=2) < 0.6 * alone
    uneven = [cycles(sizes, MatmulBlocking(TALL, 28, 512, ng), threads=2) for ng in (1, 2)]
    assert uneven[1] < 0.6 * uneven[0]


def test_small_matmuls_open_no_loop() -> None:
    sizes = (1, 8, 16, 16)
    assert cycles(sizes, MatmulBlocking(WIDE, 8, 16, 1), threads=2) < ZEN5.open_cycles


def test_b_as_it_lies_costs_more_than_panels() -> None:
    for m in (8, 32, 512):
        sizes, blocking = (1, m, 256, 512), MatmulBlocking(WIDE, m, 512, 1)
        assert cycles(sizes, blocking, packed=False) > 1.02 * cycles(sizes, blocking)


def test_many_tasks_end_together() -> None:
    sizes, blocking = (500, 48, 48, 48), MatmulBlocking(WIDE, 48, 48, 1)
    assert cycles(sizes, blocking, threads=4) == pytest.approx(
        cycles(sizes, blocking) / 4 + ZEN5.open_cycles
    )
