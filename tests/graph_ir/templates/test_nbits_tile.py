"""Register tiles of packed weights: what they prefetch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target
from graphc.tensor_ir.printer import print_module
from support.lowered import check_interpreted
from support.packed_matmul import packed_matmul


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("rows", "l1_bytes", "lines"), [(1, 1 << 20, 0), (1, 1 << 10, 4), (3, 1 << 10, 4)]
)
def test_words_that_l1_cannot_hold_are_fetched_ahead(rows: int, l1_bytes: int, lines: int) -> None:
    """One line per vector of a word is fetched, also where several tiles read a panel."""
    graph, _ = packed_matmul(rows, 128, 64, 4, 32, False)
    target = replace(Target("avx512"), l1_bytes=l1_bytes)
    requested = {"y": parse_schedule("unpack=registers use=fma mr=1 nv=4")}
    lowered = check_interpreted(graph, LowerContext(target, requested=requested))
    hints = print_module(lowered.module).count("prefetch(")
    assert hints == 4 * lines, "4 words of a column in each round"
