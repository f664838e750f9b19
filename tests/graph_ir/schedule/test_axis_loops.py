"""Schedules of ops that are a kernel each: scans, row sorts and scatters, every one run and compared exactly."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import S32, S64
from graphc.base.errors import UserError
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Graph, Op
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.space import ScheduleSpace
from graphc.graph_ir.schedule.spaces import space_of
from graphc.tools.variant_program import try_variants
from graphc.tools.variants import op_variants
from support.isa import host_target
from support.lowered import context

TWO = LowerContext(host_target("generic"), CompileOptions(2))


def scan(*dims: int, axis: int) -> Op:
    graph = Graph("scan")
    x = graph.make_input(LogicalTensor(S32, dims), "x")
    return graph.make("cum_sum", [x], {"axis": axis}, "y")


def sort(*dims: int, k: int) -> Op:
    graph = Graph("sort")
    x = graph.make_input(LogicalTensor(S32, dims), "x")
    return graph.make("sort_rows", [x], {"k": k}, "y")


def scatter(elements: int, run: int) -> Op:
    graph = Graph("scatter")
    shapes = {"at": (3,), "x": (elements,), "u": (3, run)}
    made = [
        graph.make_input(LogicalTensor(S64 if name == "at" else S32, dims), name)
        for name, dims in shapes.items()
    ]
    return graph.make("scatter", made, {"run": run, "reduction": "add"}, "y")


def space(op: Op, threads: int = 1) -> ScheduleSpace:
    found = space_of(op, context(threads=threads))
    assert found is not None
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("op", "offered"),
    [
        (scan(5, 4099, axis=1), 10),
        (scan(5, 7, axis=1), 2),
        (scan(2, 9, 1031, axis=1), 5),
        (sort(40, 500, k=30), 6),
        (sort(3, 20, k=20), 1),
        (scatter(20_000, 5), 4),
        (scatter(100, 5), 1),
    ],
)
def test_every_schedule_gives_the_same_numbers(op: Op, offered: int) -> None:
    variants = list(op_variants(op, TWO, 0))
    assert len({str(v.schedule) for v in variants}) == len(variants) == offered
    for trial in try_variants(variants, TWO):
        assert trial.difference.absolute == 0, trial.variant.schedule
        assert trial.variant.predicted
    assert sum(v.chosen for v in variants) == 1


def test_picks() -> None:
    assert str(space(scan(256, 4096, axis=1), 2).pick) == "row-scan tasks=2 chains=8 block=128"
    assert str(space(scan(8, 100, axis=1)).pick) == "row-scan tasks=1 chains=8 block=12"
    assert str(space(scan(9, 1000, axis=0)).pick) == "column-scan tasks=1 columns=512"
    assert str(space(sort(16, 10_000, k=50), 2).pick) == "row-sort tasks=2 groups=128"
    assert str(space(sort(16, 500, k=200)).pick) == "row-sort tasks=1 groups=1"
    assert str(space(scatter(20_000, 5), 2).pick) == "scatter tasks=2 piece=4096"


def test_rows_of_dynamic_length_run_one_at_a_time_at_unknown_cost() -> None:
    graph = Graph("open")
    x = graph.make_input(LogicalTensor(S32, (4, size(Symbol("N", 1, 99)))), "x")
    found = space(graph.make("cum_sum", [x], {"axis": 1}, "y"))
    assert (str(found.pick), len(found.candidates)) == ("row-scan tasks=1 chains=1 block=1", 1)
    assert found.cycles(found.pick) is None
    with pytest.raises(UserError, match="chains and block must be 1, as the row is dynamic, got"):
        found.complete(parse_schedule("chains=8"))


@pytest.mark.parametrize(
    ("op", "requested", "message"),
    [
        (scan(3, 100, axis=1), "block=13", "block must be at most 12, got 'row-scan"),
        (scan(3, 60, axis=1), "chains=64 block=2", "block must be at most 1, got"),
        (scan(9, 50, axis=0), "columns=51", "columns must be at most 50, got 'column-scan"),
        (scan(2, 3_000_000, axis=1), "chains=4 block=700000", "block must be at most 49152, got"),
        (scan(3, 100, axis=1), "chains=65 block=1", "chains must be at most 64, got"),
        (scan(2, 3_000_000, axis=0), "columns=3000000", "columns must be at most 196608, got"),
        (sort(3, 500, k=40), "groups=32", "a multiple of 32 from 40 to 500, got 'row-sort"),
        (sort(3, 500, k=40), "groups=65", "groups must be 1, or a multiple of 32 from 40 to 500"),
        (sort(3, 90, k=4), "groups=96", "from 4 to 90, got"),
    ],
)
def test_what_cannot_run_is_said(op: Op, requested: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        space(op).complete(parse_schedule(requested))


@pytest.mark.parametrize(
    ("axis", "requested"),
    [(1, "chains=4 block=49152"), (0, "columns=196608"), (1, "chains=64 block=1")],
)
def test_the_largest_that_may_be_requested_fits_the_stack(axis: int, requested: str) -> None:
    graph, x = Graph("scan"), np.ones((2, 400_013), np.int32)
    found = graph.make(
        "cum_sum", [graph.make_input(LogicalTensor(S32, x.shape), "x")], {"axis": axis}, "y"
    )
    graph.make_output(found.outputs[0])
    model = compile_model(graph, threads=2, schedules={"y": requested})
    np.testing.assert_array_equal(model(x), np.cumsum(x, axis))
