"""A box written into a tensor at an offset known at run time."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32, S64
from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.lowering.registry import get_func
from graphc.tensor_ir import interpreter
from support.check_op import check_op, random_array
from support.compiled import check_native
from support.lowered import context

CASES = {
    "a row": ((5, 3), (1, 3), (0,)),
    "several rows": ((5, 3), (2, 3), (0,)),
    "a column": ((5, 3), (5, 1), (1,)),
    "a box": ((4, 5, 6), (2, 3, 6), (0, 1)),
    "axes the other way round": ((4, 5), (2, 3), (1, 0)),
    "all of it": ((4, 5), (4, 5), (0,)),
    "nowhere to move": ((4, 5), (4, 5), ()),
    "nothing": ((4, 5), (0, 5), (0,)),
    "each": ((2, 3, 4, 5), (2, 3, 1, 5), (2,)),
}
STARTS = (0, 1, 2, -3, 99)


def arrays(case: str, start: int, dtype: str = "f32") -> list[Array]:
    x, update, axes = CASES[case]
    boxes = [random_array(dtype, x, 1), random_array(dtype, update, 2)]
    return [*boxes, *(np.array(start + i, np.int64) for i in range(len(axes)))]


@pytest.mark.parametrize("starts", [(0, 2), (3, -1), (99, 1)])
def test_each_of_the_first_axis_has_its_start(starts: tuple[int, ...]) -> None:
    given = [*arrays("each", 0)[:2], np.array(starts, np.int64)]
    alone = [
        written(x[None], update[None], [start], (2,))
        for x, update, start in zip(*given, strict=True)
    ]
    check_op("update_slice", given, {"axes": (2,)}, np.concatenate(alone))
    check_native("update_slice", given, {"axes": (2,)})
    check_in_place(given, (2,), np.concatenate(alone))


def written(x: Array, update: Array, starts: list[Array], axes: tuple[int, ...]) -> Array:
    result, region = x.copy(), [slice(None)] * x.ndim
    for axis, start in zip(axes, starts, strict=True):
        begin = int(np.clip(start, 0, x.shape[axis] - update.shape[axis]))
        region[axis] = slice(begin, begin + update.shape[axis])
    result[tuple(region)] = update
    return result


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("start", STARTS)
def test_update_slice(case: str, start: int) -> None:
    given, axes = arrays(case, start), CASES[case][2]
    check_op("update_slice", given, {"axes": axes}, written(given[0], given[1], given[2:], axes))


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "s8", "bool"])
def test_update_slice_natively(case: str, dtype: str) -> None:
    check_native("update_slice", arrays(case, 1, dtype), {"axes": CASES[case][2]})


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("start", STARTS)
def test_in_place_only_the_box_is_written(case: str, start: int) -> None:
    given, axes = arrays(case, start), CASES[case][2]
    check_in_place(given, axes, written(given[0], given[1], given[2:], axes))


def check_in_place(given: list[Array], axes: tuple[int, ...], wanted: Array) -> None:
    graph = Graph("g")
    inputs = [
        graph.make_input(LogicalTensor(S64 if a.dtype == np.int64 else F32, a.shape), f"x{i}")
        for i, a in enumerate(given)
    ]
    op = graph.make("update_in_place", inputs, {"axes": axes}, "x")
    module = get_func(op, context())
    result = given[0].copy()
    interpreter.run(module, module.functions[0].name, [*(a.copy() for a in given), result])
    np.testing.assert_array_equal(result, op.reference(given)[0])
    np.testing.assert_array_equal(result, wanted)


WRONG: dict[str, tuple[list[tuple[int, ...]], tuple[int, ...]]] = {
    "inputs must be x, update and 1 starts, got 2 inputs": ([(4, 5), (1, 5)], (0,)),
    r"x and update must have one dtype and rank": ([(4, 5), (5,), ()], (0,)),
    r"axes must be distinct and in \[0, 2\), got \[2\]": ([(4, 5), (1, 5), ()], (2,)),
    r"axes must be distinct and in \[0, 2\), got \[0, 0\]": ([(4, 5), (1, 5), (), ()], (0, 0)),
    "the update must fit into axis 0, got 5 in 4": ([(4, 5), (5, 5), ()], (0,)),
    "the update must fit into axis 1, got 4 in 5": ([(4, 5), (1, 4), ()], (0,)),
    r"starts must be s64\[\], or s64 with one for each of axis 0, got f32\[1\]": (
        [(4, 5), (1, 5), (1,)],
        (0,),
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_errors(message: str) -> None:
    shapes, axes = WRONG[message]
    graph = Graph("g")
    kinds = [S64 if not shape else F32 for shape in shapes]
    inputs = [
        graph.make_input(LogicalTensor(k, s), "x") for k, s in zip(kinds, shapes, strict=True)
    ]
    with pytest.raises(UserError, match=message):
        graph.make("update_slice", inputs, {"axes": axes}, "x")
