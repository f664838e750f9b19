import numpy as np
import pytest

from graphc.base.errors import UserError
from support.check_op import ALL, INTEGERS, check_op, make_op, random_array


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_axes(axis):
    x = random_array("f32", (2, 3, 4))
    indices = np.random.default_rng(0).integers(0, x.shape[axis], (2, 3, 4))
    check_op("gather_elements", [x, indices], {"axis": axis}, np.take_along_axis(x, indices, axis))


@pytest.mark.parametrize("dtype", ALL)
def test_every_dtype(dtype):
    x = random_array(dtype, (4,))
    check_op("gather_elements", [x, np.array([3, 0, 3])], {}, x[[3, 0, 3]])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_index_dtype(dtype):
    x = random_array("f32", (4,))
    indices = np.array([1, 3, 0], random_array(dtype, ()).dtype)
    check_op("gather_elements", [x, indices], {}, x[[1, 3, 0]])


def test_shorter_and_empty_indices():
    x = random_array("f32", (4, 5))
    check_op("gather_elements", [x, np.array([[4], [0]])], {"axis": 1}, x[[0, 1], [4, 0]][:, None])
    check_op("gather_elements", [x, np.zeros((0, 5), np.int64)], {}, x[:0])


def test_indices_outside_are_clamped_and_negative_ones_wrap():
    x = np.arange(4, dtype=np.float32)
    indices = np.array([-1, -4, -5, 4, 2**62])
    check_op("gather_elements", [x, indices], {}, np.array([3, 0, 0, 3, 3], np.float32))


@pytest.mark.parametrize(
    ("dims", "dtype", "attrs", "message"),
    [
        ((2, 3), "f32", {}, "gather_elements 'x': indices must be integers, got f32; insert a cast"),
        (
            (2, 4),
            "s64",
            {},
            "gather_elements 'x': indices must have x's rank and no longer axis than x has, the gathered one aside, "
            "got f32[2,3] and s64[2,4]",
        ),
        ((2, 3), "s64", {"axis": 2}, "gather_elements 'x': axis must be in [-2, 2), got 2"),
    ],
)  # fmt: skip
def test_rejects(dims, dtype, attrs, message):
    with pytest.raises(UserError) as error:
        make_op("gather_elements", [random_array("f32", (2, 3)), random_array(dtype, dims)], attrs)
    assert str(error.value) == message
