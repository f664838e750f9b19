"""Schedules of steps: every step keeps the result, and what does not apply is a sentence."""

from __future__ import annotations

import pytest

from graphc.base.dims import Symbol, size
from graphc.base.errors import UserError
from graphc.graph_ir.ir.schedule import read_steps
from graphc.graph_ir.nest.lower import lower
from graphc.graph_ir.nest.nest import contraction
from graphc.graph_ir.nest.scalar import lower_scalar
from graphc.graph_ir.nest.schedule_text import STEPS, apply, steps_of
from graphc.graph_ir.schedule.cost import MatmulBlocking
from graphc.graph_ir.schedule.matmul_steps import matmul_steps
from graphc.targets.isa import GemmTile
from graphc.tensor_ir.nodes import Block, Function, Module
from graphc.tensor_ir.printer import print_module
from support.matmul_nests import TARGET, problem, run

M = size(Symbol("M", 1, 64))
SCHEDULE = (
    "split n 24; split m even 8; split k 4; chunk n0 2; reorder b0 n0_chunk m0 n0 k0 m1 n1 k1; "
    "stage A at m0 as a_rows; stage B at k0 as panel; stage C at n0 as sums; "
    "tensorize 4x3 over m1 n1 k1; parallelize b0 n0_chunk m0"
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", ["plain", "transposed", "panels"])
@pytest.mark.parametrize(("m", "n", "k"), [(11, 53, 10), (8, 48, 4), (1, 1, 1), (16, 25, 5)])
def test_every_step_keeps_the_result(m: int, n: int, k: int, layout: str) -> None:
    nest = contraction(problem(m, n, k, layout))
    run(nest, m, layout)
    schedule = SCHEDULE.replace("stage B at k0 as panel; ", "") if layout == "panels" else SCHEDULE
    for _, after in steps_of(nest, schedule):
        run(after, m, layout)


@pytest.mark.exhaustive
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 23])
def test_every_step_keeps_the_result_of_dynamic_rows(rows: int) -> None:
    nest = contraction(problem(M))
    run(nest, rows)
    for _, after in steps_of(nest, SCHEDULE.replace("chunk n0 2", "chunk n0")):
        run(after, rows)


@pytest.mark.parametrize("rows", [1, 2, 3, 9])
def test_every_step_of_a_specialized_nest_keeps_the_result(rows: int) -> None:
    many = "split n 24; split m even 8; reorder b0 m0 n0 m1 n1 k; stage B at n0 as panel; tensorize 4x3 over m1 n1 k"
    few = "split n 24; reorder b0 n0 m n1 k; tensorize 1x3 over m n1 k exact"
    schedule = f"{many}; specialize m 1; {few}; specialize m 2; {few}"
    steps = [after for _, after in steps_of(contraction(problem(M)), schedule)]
    for after in steps:
        run(after, rows)
    assert list(steps[-1].cases) == [("m", 2), ("m", 1)]


def test_a_specialized_nest_is_a_branch() -> None:
    tile = "split n 24; reorder b0 n0 m n1 k; stage B at n0 as panel; tensorize 4x3 over m n1 k"
    body = lower(apply(contraction(problem(M)), f"{tile}; specialize m 1; {tile}"), TARGET)
    text = print_module(
        Module((Function("f", (), body if isinstance(body, Block) else Block((body,))),))
    )
    one, others = text.partition("if size_M == 1:")[2].split("\n    else:")
    assert "m=1," in one and "m=4," not in one
    assert "m=4," in others


@pytest.mark.parametrize("axes", ["m n 4 24", "n m 24 4", "m k 8 3", "b0 k 1 4", "m n k 4 24 5"])
def test_tiles_are_loops_that_are_split_and_put_together(axes: str) -> None:
    nest = apply(contraction(problem(11, 53, 10)), f"tile {axes}")
    run(nest, 11)
    names = axes.split()[: len(axes.split()) // 2]
    inner = [f"{name}{level}" for level in (0, 1) for name in names]
    loops = [loop.name for loop in nest.loops]
    assert [x for x in loops if x in inner] == inner == loops[loops.index(inner[0]) :][: len(inner)]


def test_a_tile_is_two_splits_and_a_reorder() -> None:
    given = contraction(problem(11, 53, 10))
    rest = "; stage B at n0 as panel; tensorize 4x3 over m1 n1 k; parallelize b0 m0"
    by_hand = "split m 8; split n 24; reorder b0 m0 n0 m1 n1 k"
    assert apply(given, f"tile m n 8 24{rest}") == apply(given, by_hand + rest)
    assert read_steps(f"tile m n 8 24{rest}") == read_steps(by_hand + rest)


def test_a_blocking_is_a_schedule_one_can_read() -> None:
    blocking = MatmulBlocking(GemmTile(4, 3), 32, 256, 2)
    assert matmul_steps(problem(64, 96, 512), blocking, TARGET) == (
        "split n 24; split m 32; split k 256; chunk n0 2; reorder b0 n0_chunk m0 k0 n0 m1 n1 k1; "
        "stage B at n0 as b_panel above 16; tensorize 4x3 over m1 n1 k1; parallelize b0 n0_chunk m0"
    )


REFUSED = {
    "split n 24 10": "split n: the factors must be numbers from 1, each dividing the one before it, got '24 10'",
    "tile m n 4": "tile m n 4: there must be loops, each once, then as many sizes, as in tile m n 20 24",
    "tile m m 4 4": "tile m m 4 4: there must be loops, each once, then as many sizes, as in tile m n 20 24",
    "tile m q 4 4": "there is no loop 'q', only b0, m, n, k; it must be one of these",
    "split m 4; tile m1 m0 2 2": "m10 steps by 2 and must be inside of m00",
    "split q 4": "there is no loop 'q', only b0, m, n, k; it must be one of these",
    "merge n": "'merge n': there is no transformation 'merge', it must be one of "
    + ", ".join(STEPS),
    "split n 8; reorder b0 m n1 n0 k": "n1 steps by 1 and must be inside of n0",
    "reorder n m": "reorder: every loop must be named once; check b0, k",
    "stage D at m as x": "stage D: the operand must be A, B or C",
    "stage B at m as panel; stage B at n as other": "stage B at n: B is staged already and must be staged once",
    "reorder k m n b0; stage C at k as sums": "stage C at k: k must be inside, as its iterations add to C",
    "split k 2; tensorize 4x3 over m n k": "must be the innermost loops, over m, n and k",
    "parallelize k": "parallelize k: a reduced loop must stay serial, as its iterations add to the same elements of C",
    "parallelize n": "parallelize: the loops must be the outermost, b0, got n",
    "parallelize": "parallelize: the loops must be the outermost, b0, got none",
    "tensorize 4x3": "tensorize: it must name the innermost loops, as in 'tensorize 8x3 over m1 n1 k1'",
    "tensorize 4x3 over m n k; tensorize 4x3 over m n k": "there must be one register tile, and one has been chosen",
    "reorder b0 m n k k": "reorder: every loop must be named once; check k",
    "prefetch B 4": "prefetch: B must lie in panels, and a tile must have been chosen",
    "specialize q 1": "specialize q: the axis must be one of b0, m, n, k",
    "specialize m 11": "specialize m 11: the size must be dynamic, and m is always 11",
    "specialize m": "the step must look like 'specialize m 1'",
    "chunk k 2": "chunk k: a reduced loop must stay whole, as its iterations add to the same elements of C",
    "stage A": "'stage A': the step must look like 'stage B at n0 as panel'",
}


@pytest.mark.parametrize("schedule", REFUSED)
def test_steps_that_do_not_apply_say_why(schedule: str) -> None:
    with pytest.raises(UserError) as caught:
        apply(contraction(problem()), schedule)
    assert REFUSED[schedule] in str(caught.value)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("specialize m 65", "specialize m 65: the size must be one of 1 to 64"),
        ("specialize m 2; specialize m 2", "specialize m 2: each size must be specialized once"),
    ],
)
def test_sizes_that_cannot_be_specialized(steps: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        apply(contraction(problem(M)), steps)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("stage B at root as lumps", "stage B at root: it must be called panels, got lumps"),
        ("stage B at root as panels[n,k]", "it must be called panels, got panels"),
        ("tensorize 4x3 over m n k; prefetch B 0", "the rows of a tile must be 1 or more, got 0"),
    ],
)
def test_panels_are_named_and_fetched_by_rows(steps: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        apply(contraction(problem(layout="panels")), steps)


def test_the_naive_nest_is_the_definition() -> None:
    body = lower_scalar(contraction(problem(2, 3, 4)))
    text = print_module(Module((Function("f", (), body),)))
    assert "for b0 in range(0, 2)" in text and "for k in range(0, 4)" in text
