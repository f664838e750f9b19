import numpy as np
import pytest

from graphc.base.errors import UserError
from support.check_op import ALL, INTEGERS, check_op, make_op, random_array


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (1, 1), (0,)])
def test_axes_and_index_shapes(axis, shape):
    x = random_array("f32", (2, 3, 2))
    indices = np.random.default_rng(0).integers(0, 2, shape)
    check_op("gather", [x, indices], {"axis": axis}, np.take(x, indices, axis))


@pytest.mark.parametrize("dtype", ALL)
def test_every_dtype(dtype):
    x = random_array(dtype, (4, 3))
    check_op("gather", [x, np.array([3, 0, 3])], {"axis": 0}, x[[3, 0, 3]])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_index_dtype(dtype):
    x = random_array("f32", (4,))
    indices = np.array([1, 3, 0], random_array(dtype, ()).dtype)
    check_op("gather", [x, indices], {}, x[[1, 3, 0]])


def test_negative_indices_count_from_the_back_and_others_are_clamped():
    x = np.arange(4, dtype=np.float32)
    indices = np.array([-1, -4, -5, -100, 4, 100, 2**62, -(2**62)])
    check_op("gather", [x, indices], {}, np.array([3, 0, 0, 0, 3, 3, 3, 0], np.float32))


def test_nothing_can_be_gathered_from_nothing():
    empty = np.zeros((0, 2), np.float32)
    check_op("gather", [empty, np.zeros((0,), np.int64)], {}, empty)
    with pytest.raises(
        UserError,
        match=r"^gather 'x': axis 0 must have elements to gather, got f32\[0,2\] and 1 indices$",
    ):
        make_op("gather", [empty, np.zeros((1,), np.int64)])


@pytest.mark.parametrize(
    ("dtype", "attrs", "message"),
    [
        ("f32", {}, "gather 'x': indices must be integers, got f32; insert a cast"),
        ("s64", {"axis": 1}, "gather 'x': axis must be in [-1, 1), got 1"),
    ],
)  # fmt: skip
def test_rejects(dtype, attrs, message):
    with pytest.raises(UserError) as error:
        make_op("gather", [random_array("f32", (3,)), random_array(dtype, (2,))], attrs)
    assert str(error.value) == message
