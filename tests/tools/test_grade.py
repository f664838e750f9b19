"""Grades of the cost model: rank correlation, and what its choices lose."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.graph_ir.inspect.compare import Difference
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.schedule import Schedule
from graphc.tensor_ir.nodes import Block, Function
from graphc.tools.grade import by_kind, grades, overall, rank_correlation
from graphc.tools.variant_program import Trial
from graphc.tools.variants import Variant


def trial(
    problem: str,
    predicted: float | None,
    seconds: float | None,
    chosen: bool,
    layout: str = "AB",
) -> Trial:
    variant = Variant(
        "op", layout, Function("f", (), Block(())), (), (LogicalTensor(F32, ()),),
        (np.zeros((), np.float32),), True, problem, predicted, chosen,
        Schedule.of("gemm", b=f"b{predicted}"),
    )  # fmt: skip
    return Trial(variant, Difference(0.0, 0.0, True), seconds)


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ([1, 2, 3], [10, 20, 30], 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0),
        ([1, 2, 3, 4, 5], [5, 6, 7, 8, 7], 0.8207826816681233),  # as SciPy's spearmanr
        ([1, 1, 2], [1, 2, 3], 0.8660254037844387),
    ],
)
def test_rank_correlation(first: list[float], second: list[float], wanted: float) -> None:
    assert rank_correlation(first, second) == pytest.approx(wanted)


def test_where_all_are_equal_there_is_no_correlation() -> None:
    assert math.isnan(rank_correlation([1, 1, 1], [1, 2, 3]))


def test_a_grade_per_problem_that_was_chosen_from() -> None:
    found = grades(
        [
            trial("a", 10.0, 3e-6, True),
            trial("a", 20.0, 2e-6, False),
            trial("a", 30.0, 4e-6, False),
            trial("b", 10.0, 1e-6, True),
            trial("b", 20.0, 2e-6, False),
            trial("one variant", 1.0, 1e-6, True),
            trial("nothing chosen", 1.0, 1e-6, False),
            trial("nothing chosen", 2.0, 2e-6, False),
            trial("", None, None, False),
        ]
    )
    assert [grade.problem for grade in found] == ["a", "b"]
    a, b = found
    assert (a.variants, a.chosen, a.best, a.best_variant) == (3, 3e-6, 2e-6, "AB gemm b=b20.0")
    assert a.lost == pytest.approx(0.5) and b.lost == 0.0
    assert (a.correlation, b.correlation) == (pytest.approx(0.5), pytest.approx(1.0))
    assert overall(found) == (pytest.approx(0.75), pytest.approx(1 / 3))


def test_a_choice_is_held_against_its_own_layouts() -> None:
    chosen, same = trial("a", 10.0, 3e-6, True), trial("a", 20.0, 2e-6, False)
    (grade,) = grades([chosen, same, trial("a", 5.0, 1e-6, False, "BA")])
    assert (grade.variants, grade.best, grade.best_variant) == (3, 2e-6, "AB gemm b=b20.0")


def test_nothing_to_grade() -> None:
    correlation, lost = overall(grades([]))
    assert math.isnan(correlation) and lost == 0.0


def test_grades_by_kind_of_problem() -> None:
    names = ("matmul m2", "rows add 8x8", "matmul m3")
    trials = [trial(name, p, p + 1, not p) for name in names for p in (0.0, 1.0)]
    kinds = by_kind(grades(trials))
    assert {kind: len(found) for kind, found in kinds.items()} == {"matmul": 2, "rows": 1}
