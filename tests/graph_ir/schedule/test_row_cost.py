"""The predicted cost of a row: what is kept or computed again, interleaved rows, results that are far away."""

from __future__ import annotations

import pytest

from graphc.graph_ir.schedule.row_cost import END_CYCLES, EXPENSIVE_CYCLES, KEEP_CYCLES, RowCost
from graphc.targets.machines import ZEN5

SOFTMAX = RowCost(vectors=32, reductions=2, expensive=1, far_bytes=0)
FAR = RowCost(vectors=32, reductions=2, expensive=1, far_bytes=2048)


def test_an_exponential_is_kept_or_computed_again() -> None:
    kept, again = (SOFTMAX.cycles(word, 1, ZEN5) for word in ("kept", "recomputed"))
    assert again - kept == pytest.approx(32 * (EXPENSIVE_CYCLES - KEEP_CYCLES))


def test_interleaved_rows_share_the_ends_of_reductions() -> None:
    alone, four = (SOFTMAX.cycles("kept", block, ZEN5) for block in (1, 4))
    assert alone - four == pytest.approx(2 * END_CYCLES * 3 / 4)


def test_a_result_that_is_far_is_waited_for_unless_values_are_kept_in_it() -> None:
    assert FAR.cycles("kept", 1, ZEN5) > SOFTMAX.cycles("kept", 1, ZEN5)
    assert FAR.cycles("result", 1, ZEN5) == SOFTMAX.cycles("result", 1, ZEN5)
