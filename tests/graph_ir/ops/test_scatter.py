from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import F32, S32, by_name, from_numpy
from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.check_op import ALL, check_op, make_op, random_array

COMBINE: dict[str, Any] = {
    "none": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b,
    "min": min, "max": max, "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
}  # fmt: skip
INDICES = np.array([3, 3, 19, 20, -1, 0, 3])


def allowed(dtype: str) -> list[str]:
    kind = by_name(dtype).kind
    numbers = ["add", "mul", "min", "max"] if kind != "bool" else []
    return ["none", *numbers, *(["and", "or", "xor"] if kind != "float" else [])]


def sequential(data: np.ndarray, updates: np.ndarray, reduction: str) -> np.ndarray:
    result = data.copy().reshape(-1)
    for index, update in zip(INDICES, updates, strict=True):
        if 0 <= index < result.size:
            result[index] = COMBINE[reduction](result[index], update)
    return result.reshape(data.shape)


def compiled(op_name: str, arrays: list[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
    graph = Graph("one")
    tensors = [
        graph.make_input(LogicalTensor(from_numpy(a.dtype), a.shape), f"in{i}")
        for i, a in enumerate(arrays)
    ]
    op = graph.make(op_name, tensors, attrs, "x")
    for tensor in op.outputs:
        graph.make_output(tensor)
    result = graphc.compile(graph)(*arrays)
    return list(result) if isinstance(result, (list, tuple)) else [result]


@pytest.mark.parametrize("dtype", ALL)
def test_every_dtype_and_reduction(dtype: str) -> None:
    data, updates = random_array(dtype, (4, 5)), random_array(dtype, (7,), 1)
    with np.errstate(all="ignore"):
        for reduction in allowed(dtype):
            expected = sequential(data, updates, reduction)
            attrs = {"reduction": reduction}
            check_op("scatter", [INDICES, data, updates], attrs, expected)


@pytest.mark.parametrize(
    ("dtype", "reduction"),
    [("f32", "add"), ("bf16", "max"), ("bool", "xor"), ("u8", "mul"), ("s64", "none")],
)
def test_native_code_gives_the_bits_of_the_reference(dtype: str, reduction: str) -> None:
    arrays = [INDICES, random_array(dtype, (4, 5)), random_array(dtype, (7,), 1)]
    attrs = {"reduction": reduction}
    (wanted,) = make_op("scatter", arrays, attrs).reference(arrays)
    (got,) = compiled("scatter", arrays, attrs)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("rows", [3, 100])  # the longer one is copied by several tasks
def test_runs_are_all_or_nothing(rows: int) -> None:
    data, updates = random_array("f32", (rows, 300)), random_array("f32", (4, 500), 1)
    indices = np.array([0, rows * 300 - 500, rows * 300 - 499, -1])
    expected = data.copy().reshape(-1)
    expected[:500] += updates[0]
    expected[-500:] += updates[1]
    attrs = {"reduction": "add", "run": 500}
    check_op("scatter", [indices, data, updates], attrs, expected.reshape(data.shape))
    (got,) = compiled("scatter", [indices, data, updates], attrs)
    np.testing.assert_array_equal(got, expected.reshape(data.shape))


def best_and_index() -> Graph:
    """(old value, old index, value, index) -> the larger value and its index."""
    body = Graph("best")
    old, was, new, index = (
        body.make_input(LogicalTensor(dtype, ()), f"p{i}")
        for i, dtype in enumerate((F32, S32, F32, S32))
    )
    two = body.make_constant(np.int32(2))
    above = body.make("gt", [new, old]).outputs[0]
    value = body.make("select", [above, new, old]).outputs[0]
    double = body.make("mul", [index, two]).outputs[0]
    which = body.make("select", [above, double, was]).outputs[0]
    for result in (value, which):
        body.make_output(result)
    return body


def test_a_body_of_several_arrays() -> None:
    values, numbers = random_array("f32", (3, 4)), np.full((3, 4), -1, np.int32)
    updates, where = random_array("f32", (30,), 1), np.arange(30, dtype=np.int32)
    indices = np.arange(30) % 13 - 1
    best, number = values.copy().reshape(-1), numbers.copy().reshape(-1)
    for i, index in enumerate(indices):
        if index >= 0 and updates[i] > best[index]:
            best[index], number[index] = updates[i], 2 * i
    arrays = [indices, values, numbers, updates, where]
    attrs = {"body": best_and_index()}
    for got in (make_op("scatter", arrays, attrs).reference(arrays), compiled("scatter", arrays, attrs)):  # fmt: skip
        np.testing.assert_array_equal(got[0].reshape(-1), best)
        np.testing.assert_array_equal(got[1].reshape(-1), number)


@pytest.mark.parametrize(("data", "count"), [((0, 3), 2), ((2, 3), 0)])
def test_nothing_to_do(data: tuple[int, ...], count: int) -> None:
    arrays = [np.zeros(count, np.int64), random_array("f32", data), random_array("f32", (count,))]
    check_op("scatter", arrays, {}, arrays[1])
    np.testing.assert_array_equal(compiled("scatter", arrays, {})[0], arrays[1])


F = ("f32", (2,))


@pytest.mark.parametrize(
    ("inputs", "attrs", "message"),
    [
        ([F, F], {}, "inputs must be indices, data..., updates..., got 2 inputs"),
        ([F, F, F], {}, "indices must be integers, got f32; insert a cast"),
        (
            [("s64", (2,)), F, ("f64", (2,))],
            {},
            "data must be of one shape and updates of the data's dtype, got f32[2] and f64[2]",
        ),
        (
            [("s64", (2,)), F, F],
            {"run": 3},
            "there must be 3 updates for each index, got f32[2] for 2 indices",
        ),
        (
            [("s64", (2,)), F, F],
            {"reduction": "xor"},
            "reduction of f32 must be one of none, add, mul, min, max, got 'xor' of 1 arrays",
        ),
        (
            [("s64", (2,)), F, F, F, F],
            {},
            "reduction of f32 must be one of none, add, mul, min, max, got 'none' of 2 arrays; give a body",
        ),
        (
            [("s64", (2,)), F, F],
            {"body": best_and_index()},
            "the body must map two scalars of each data array to one, "
            "got f32[], s32[], f32[], s32[] to f32, s32",
        ),
    ],
)
def test_rejects(
    inputs: list[tuple[str, tuple[int, ...]]], attrs: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError) as error:
        make_op("scatter", [random_array(*x) for x in inputs], attrs)
    assert str(error.value) == f"scatter 'x': {message}"
