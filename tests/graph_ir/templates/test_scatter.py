"""Scatter loops on arrays between guard pages, against the interpreter."""

from collections.abc import Sequence

import numpy as np
import pytest

from graphc.base.dtypes import F32, S32
from graphc.graph_ir.ir.schedule import Schedule
from graphc.graph_ir.templates.scatter import ScatterProblem, scatter_function
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Buffer, Expr, For, Function, Let, Module
from graphc.tensor_ir.pipeline import run as optimize
from graphc.tensor_ir.verifier import verify
from support.native_functions import SHAPES, NativeModule, runnable_target


def added(old: Sequence[Expr], new: Sequence[Expr]) -> tuple[list[Let], list[Expr]]:
    return [], [old[0] + new[0]]


def function(problem: ScatterProblem, threads: int = 1) -> Function:
    data, out = Buffer("data", F32, (problem.size,)), Buffer("out", F32, (problem.size,))
    updates = Buffer("updates", F32, (problem.runs * problem.run,))
    indices = Buffer("indices", S32, (problem.runs,))
    params = (indices, data, updates, out)
    return scatter_function(
        "scatter",
        params,
        [(data, updates, out)],
        indices,
        problem,
        added,
        Schedule.of("scatter", tasks=threads, piece=4096),
        "s1",
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("run", [1, 7, 40])
def test_nothing_outside_the_arrays_is_touched(run: int, shape: str) -> None:
    size = 100
    indices = np.array([0, size - run, size - run + 1, -1, -(2**31), 2**31 - 1, 0], np.int32)
    problem = ScatterProblem(size, len(indices), run)
    target = runnable_target(shape)
    module = optimize(verify(Module((function(problem),))), target)
    data = np.arange(size, dtype=np.float32)
    updates = np.arange(run * len(indices), dtype=np.float32)
    out = np.zeros(size, np.float32)
    native = NativeModule(module, target)
    for at in ("start", "end"):
        native.check("scatter", [indices, data, updates, out], at)  # type: ignore[arg-type]


@pytest.mark.parametrize("problem", [ScatterProblem(0, 3, 1), ScatterProblem(5, 0, 2)])
def test_empty_arrays(problem: ScatterProblem) -> None:
    module = verify(Module((function(problem),)))
    data = np.arange(problem.size, dtype=np.float32)
    out = np.full(problem.size, 9, np.float32)
    indices, updates = np.zeros(problem.runs, np.int32), np.zeros(problem.runs, np.float32)
    interpreter.run(module, "scatter", [indices, data, updates, out])
    np.testing.assert_array_equal(out, data)


def test_a_large_copy_is_split_among_threads() -> None:
    split = function(ScatterProblem(20_000, 1, 1), threads=2)
    loops = [s for s in split.body.body if isinstance(s, For)]
    assert [loop.kind for loop in loops] == ["parallel", "serial"]
