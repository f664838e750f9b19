"""Random schedules: each is refused in one sentence, or computes the exact result."""

from __future__ import annotations

import random

import pytest

from graphc.base.errors import UserError
from graphc.graph_ir.nest.check import invalid_reason
from graphc.graph_ir.nest.nest import contraction
from graphc.graph_ir.nest.schedule_text import apply
from support.convolution_nests import COLUMNS, PADDED, check
from support.convolution_nests import problem as image_problem
from support.matmul_nests import PANEL, TARGET, problem, run

SIZES = (11, 53, 10)


def random_steps(rnd: random.Random, axes: str, columns: int, layout: str) -> str:
    """Steps that split some axes, put the loops into an order that is often legal, and stage some operands."""
    steps, loops = [], []
    for axis in axes.split():
        if axis in "ymnk" and rnd.random() < 0.8:
            factor = (
                columns if axis == "n" and rnd.random() < 0.8 else rnd.choice([1, 2, 3, 4, 8, 24])
            )
            steps.append(f"split {axis} {factor}")
            loops += [f"{axis}0", f"{axis}1"]
        else:
            loops.append(axis)
    inner = [next(x for x in reversed(loops) if x[0] == axis) for axis in "mn"]
    summed = [x for x in loops if x[0] == "k"]
    inner += [x for x in summed[:-1] if rnd.random() < 0.5] + summed[-1:]
    outer = [x for x in loops if x not in inner]
    if rnd.random() < 0.3:
        rnd.shuffle(outer)
    else:
        outer.sort(key=lambda x: (x[0] != "b", x[-1] != "0", rnd.random()))
    steps.append(f"reorder {' '.join([*outer, *inner])}")
    if "ky" in axes or rnd.random() < 0.3:
        dims = rnd.choice(["iy,ix,k", "iy,ix,k", "iy,k,ix"]) if "ky" in axes else ""
        steps.append(f"stage A at {rnd.choice(outer)} as rows{f'[{dims}]' if dims else ''}")
    if layout == "panels" and rnd.random() < 0.9:
        steps.append("stage B at root as panels")
    elif rnd.random() < 0.7:
        steps.append(f"stage B at {rnd.choice(outer)} as panel")
    if rnd.random() < 0.3:
        steps.append(f"stage C at {rnd.choice(outer)} as sums")
    tile = f"{rnd.choice([1, 2, 4])}x{columns // 8}"
    steps.append(f"tensorize {tile} over {' '.join(inner)}")
    return "; ".join(steps)


@pytest.mark.parametrize("layout", ["plain", "transposed", "panels"])
def test_random_steps_of_a_matmul_are_refused_or_exact(layout: str) -> None:
    rnd, legal = random.Random(layout), 0
    nest = contraction(problem(*SIZES, layout))
    for _ in range(150):
        steps = random_steps(rnd, "b0 m n k", PANEL, layout)
        try:
            after = apply(nest, steps)
        except UserError as error:
            assert len(str(error).splitlines()) == 1
            continue
        if not invalid_reason(after, TARGET):
            legal += 1
            run(after, SIZES[0], layout)
    assert legal > 10


def test_random_steps_of_a_convolution_are_refused_or_exact() -> None:
    rnd, legal = random.Random(0), 0
    nest = contraction(image_problem(PADDED, "rows"))
    for _ in range(150):
        steps = random_steps(rnd, "b0 b1 y m n ky kx k", COLUMNS, "panels")
        try:
            after = apply(nest, steps)
        except UserError as error:
            assert len(str(error).splitlines()) == 1
            continue
        if not invalid_reason(after, TARGET):
            legal += 1
            check(after, PADDED, "rows")
    assert legal > 5


@pytest.mark.parametrize(
    "steps",
    [
        "tensorize 2x3 over m n k; parallelize b0 m",
        "parallelize b0 m n; tensorize 2x3 over m n k",
        "split m 4; reorder b0 m0 m1 n k; tensorize 2x3 over m1 n k; parallelize b0 m0 m1 n",
    ],
)
def test_loops_of_a_register_tile_are_not_shared(steps: str) -> None:
    reason = invalid_reason(apply(contraction(problem(11, 24, 10, "plain")), steps), TARGET)
    assert reason.startswith("parallelize m") and "must be outside of the register tile" in reason
