"""Rows of bytes and levels of 8 bits, widened to 16 bits: exact for the largest, for any number of rows."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.codegen.host import host_supports
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target
from support.centered_matmul import GROUP, centered_matmul, extreme_rows, longest_loop, spills

AVX2 = Target("avx2", "x86-64-v3", "+avx2,+fma")


@pytest.mark.parametrize("isa", [x for x in ("avx512", "avx2", "generic") if host_supports(x)])
@pytest.mark.parametrize("zero", [0, 128, 255])
def test_levels_of_8_bits_are_widened(zero: int, isa: str) -> None:
    levels = np.random.default_rng(0).choice([0, 1, 255], (20, 9 * GROUP))
    levels[:2] = [[0], [255]]
    x = np.repeat(extreme_rows(14), 5, 1)[:, : 9 * GROUP]
    x[3, ::2] = -128
    graph, (_, factors) = centered_matmul(8, levels, None, x, zero, is_dynamic=True)
    wanted = (x.astype(np.int64) @ (levels - zero).T).astype(np.float32)
    model = compile_model(graph, target=isa, threads=1, cache=False)
    for m in range(1, 15):
        np.testing.assert_array_equal(model(x[:m], factors[:m]), wanted[:m])


def test_tiles_split_the_bytes_of_weights_without_spills() -> None:
    loop = longest_loop(8, "vpmaddwd", AVX2)
    assert loop.count("vpmaddwd") == 64 and spills(loop) == 0


@pytest.mark.parametrize("rows", [1, 3, 16, 128])
def test_bytes_are_not_copied_before_they_are_widened(rows: int) -> None:
    x = np.zeros((rows, 640), np.int8)
    graph, _ = centered_matmul(8, np.zeros((512, 640), np.int64), None, x)
    pipeline.run(graph, LowerContext(AVX2))
    (schedule,) = (op.schedule for op in graph.ops if op.schedule)
    assert f"{schedule.word('unpack')} {schedule.word('use')}" == "registers dot2"
    assert schedule.number("mr") == min(rows, 4)
