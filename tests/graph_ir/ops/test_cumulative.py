import numpy as np
import pytest

from graphc.base.errors import UserError
from support.check_op import NUMBERS, check_op, make_op, random_array


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_every_number(dtype, axis):
    x = random_array(dtype, (3, 4))
    check_op("cum_sum", [x], {"axis": axis}, lambda v: np.cumsum(v, axis=axis, dtype=v.dtype))
    check_op("cum_prod", [x], {"axis": axis}, lambda v: np.cumprod(v, axis=axis, dtype=v.dtype), 4)


@pytest.mark.parametrize(
    ("attrs", "total", "product"),
    [
        ({}, [2, 5, 9], [2, 6, 24]),
        ({"exclusive": True}, [0, 2, 5], [1, 2, 6]),
        ({"reverse": True}, [9, 7, 4], [24, 12, 4]),
        ({"exclusive": True, "reverse": True}, [7, 4, 0], [12, 4, 1]),
    ],
)
def test_directions(attrs, total, product):
    x = np.array([2, 3, 4], np.int32)
    check_op("cum_sum", [x], attrs, np.array(total, np.int32))
    check_op("cum_prod", [x], attrs, np.array(product, np.int32))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("shape", [(0,), (1,), (2, 0)])
def test_small_axes(shape, exclusive):
    x = random_array("f32", shape)
    check_op("cum_sum", [x], {"axis": -1, "exclusive": exclusive})


def test_rejects_bools():
    with pytest.raises(UserError, match=r"^cum_sum 'x': input dtype must be a float or an integer"):
        make_op("cum_sum", [random_array("bool", (2,))])
