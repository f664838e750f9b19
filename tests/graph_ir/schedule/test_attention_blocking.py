"""The predicted cost of a blocking of attention: its matmuls, packing, rescaling, and threads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphc.graph_ir.schedule.attention_blocking import AttentionBlocking, attention_cycles
from graphc.graph_ir.schedule.cost import Gemm
from graphc.targets.isa import GemmTile, Target
from graphc.targets.machines import ZEN5
from graphc.targets.microkernels import f32_kernel

AVX512 = Target("avx512", l1_bytes=48 << 10, l2_bytes=2 << 20)
KERNEL = f32_kernel(AVX512)
TILES = (GemmTile(8, 3), GemmTile(8, 2))
WHOLE = AttentionBlocking(96, 384, TILES, KERNEL, splits_rows=False, prefetches=True)
HEADS, ROWS, DEPTH = 12, 384, 64


def cycles(blocking: AttentionBlocking, threads: int = 1) -> float:
    scores = Gemm(HEADS, ROWS, ROWS, DEPTH, KERNEL, AVX512, threads)
    return attention_cycles(scores, DEPTH, blocking)


def test_it_is_little_more_than_the_multiply_adds_of_both_matmuls() -> None:
    lanes = AVX512.lanes(KERNEL.accumulator)
    work = 2 * HEADS * ROWS * ROWS * DEPTH / lanes / ZEN5.fma_per_cycle
    assert work < cycles(WHOLE) < 1.5 * work


def test_tasks_of_rows_pack_keys_and_values_each() -> None:
    rows = cycles(replace(WHOLE, splits_rows=True))
    packing = 2 * 4 * ROWS * 2 * DEPTH / ZEN5.copy_bytes_per_cycle
    assert rows - cycles(WHOLE) == pytest.approx(3 * HEADS * packing)


def test_blocks_of_columns_rescale_and_matrices_that_nobody_fetched_are_waited_for() -> None:
    online = replace(WHOLE, rows=ROWS, prefetches=False)
    found = [cycles(replace(online, columns=columns)) for columns in (384, 192, 96)]
    assert found == sorted(found) and len(set(found)) == 3
    assert cycles(replace(WHOLE, prefetches=False)) > cycles(WHOLE)


def test_heads_or_blocks_of_rows_are_shared_by_threads() -> None:
    assert cycles(WHOLE, threads=2) == pytest.approx(cycles(WHOLE) / 2 + ZEN5.open_cycles)
    rows = replace(WHOLE, splits_rows=True)
    assert cycles(rows, threads=2) == pytest.approx(cycles(rows) / 2 + ZEN5.open_cycles)
