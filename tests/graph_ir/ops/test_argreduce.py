import numpy as np
import pytest

from graphc.base.errors import UserError
from support.check_op import NUMBERS, check_op, make_op, random_array


@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(("name", "function"), [("arg_max", np.argmax), ("arg_min", np.argmin)])
def test_axes(name, function, axis, keep_dims):
    x = random_array("f32", (3, 4, 5))
    attrs = {"axis": axis, "keep_dims": keep_dims}
    check_op(name, [x], attrs, function(x, axis=axis, keepdims=keep_dims))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_every_number(dtype):
    x = random_array(dtype, (2, 9))
    check_op("arg_max", [x], {"axis": 1}, np.argmax(x, axis=1))
    check_op("arg_min", [x], {"axis": 1}, np.argmin(x, axis=1))


def test_equal_elements():
    x = np.array([1, 3, 3, 0, 0], np.int32)
    check_op("arg_max", [x], {}, np.int64(1))
    check_op("arg_max", [x], {"last": True}, np.int64(2))
    check_op("arg_min", [x], {}, np.int64(3))
    check_op("arg_min", [x], {"last": True}, np.int64(4))


def test_nan_counts_as_the_extreme():
    x = np.array([1, np.nan, 5, np.nan], np.float32)
    check_op("arg_max", [x], {}, np.int64(1))
    check_op("arg_min", [x], {}, np.int64(1))
    check_op("arg_min", [x], {"last": True}, np.int64(3))


def test_infinities_are_found():
    x = np.array([-np.inf, -np.inf, np.inf], np.float32)
    check_op("arg_max", [x], {}, np.int64(2))
    check_op("arg_max", [x[:2]], {}, np.int64(0))


def test_rejects_an_empty_axis():
    with pytest.raises(UserError, match=r"^arg_max 'x': axis 0 must have elements, got f32\[0\]$"):
        make_op("arg_max", [random_array("f32", (0,))])
