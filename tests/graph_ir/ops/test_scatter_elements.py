import numpy as np
import pytest

from graphc.base.errors import UserError
from support.check_op import ALL, NUMBERS, check_op, make_op, random_array


def scattered(data, indices, updates, axis, combine):
    result = data.copy()
    for index in np.ndindex(indices.shape):
        target = list(index)
        target[axis] = int(indices[index])
        if -data.shape[axis] <= target[axis] < data.shape[axis]:
            old = result[tuple(target)]
            result[tuple(target)] = combine(old, updates[index])
    return result


COMBINE = {
    "none": lambda a, b: b,
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("reduction", COMBINE)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(2, 3), (1, 1), (2, 2), (0, 3)])
def test_axes_and_shapes(axis, shape, reduction):
    data = random_array("s32", (2, 3))
    indices = np.random.default_rng(1).integers(-2, 2, shape)
    updates = random_array("s32", shape, 2)
    expected = scattered(data, indices, updates, axis, COMBINE[reduction])
    attrs = {"axis": axis, "reduction": reduction}
    check_op("scatter_elements", [data, indices, updates], attrs, expected)


@pytest.mark.parametrize("dtype", ALL)
def test_every_dtype_and_the_last_update_wins(dtype):
    data, updates = random_array(dtype, (4,)), random_array(dtype, (3,), 1)
    expected = data.copy()
    expected[2], expected[0] = updates[1], updates[2]
    check_op("scatter_elements", [data, np.array([2, 2, 0]), updates], {}, expected)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_sums_of_every_number(dtype):
    data, updates = random_array(dtype, (4,)), random_array(dtype, (3,), 1)
    check_op("scatter_elements", [data, np.array([2, 2, 0]), updates], {"reduction": "add"})


def test_indices_outside_change_nothing():
    data = np.arange(3, dtype=np.float32)
    indices = np.array([3, -4, -1])
    updates = np.array([9, 9, 7], np.float32)
    check_op("scatter_elements", [data, indices, updates], {}, np.array([0, 1, 7], np.float32))


@pytest.mark.parametrize(
    ("indices", "updates", "attrs", "message"),
    [
        (("f32", (2,)), ("f32", (2,)), {}, "indices must be integers, got f32; insert a cast"),
        (
            ("s64", (2,)),
            ("f64", (2,)),
            {},
            "updates must have the data's dtype and the shape of indices, got f64[2], f32[3] and s64[2]",
        ),
        (
            ("s64", (2, 1)),
            ("f32", (2, 1)),
            {},
            "indices must have the data's rank and no longer axis, the scattered one aside, "
            "got f32[3] and s64[2,1]",
        ),
        (
            ("s64", (2,)),
            ("f32", (2,)),
            {"reduction": "sub"},
            "reduction must be one of none, add, mul, min, max, got 'sub'",
        ),
    ],
)
def test_rejects(indices, updates, attrs, message):
    arrays = [random_array("f32", (3,)), random_array(*indices), random_array(*updates)]
    with pytest.raises(UserError) as error:
        make_op("scatter_elements", arrays, attrs)
    assert str(error.value) == f"scatter_elements 'x': {message}"
