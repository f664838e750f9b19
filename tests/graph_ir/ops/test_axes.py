import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.graph_ir.ops.axes import normal_axes, normal_axis
from support.check_op import make_op


@pytest.fixture
def op():
    return make_op("abs", [np.zeros((2, 3), np.float32)])


def test_axes_are_counted_from_either_end(op):
    assert [normal_axis(op, axis, 3) for axis in (0, 2, -1, -3)] == [0, 2, 2, 0]
    assert normal_axes(op, (-1, 0), 3) == (0, 2)
    assert normal_axes(op, None, 3) == (0, 1, 2)
    assert normal_axes(op, (), 3) == ()


@pytest.mark.parametrize("axis", [3, -4, 1.0, True, None])
def test_rejects_what_is_no_axis(op, axis):
    with pytest.raises(UserError) as error:
        normal_axis(op, axis, 3)
    assert str(error.value) == f"abs 'x': axis must be in [-3, 3), got {axis!r}"


def test_rejects_repeated_axes(op):
    with pytest.raises(UserError, match=r"^abs 'x': axes must be distinct, got \(1, 1\)$"):
        normal_axes(op, (1, -2), 3)
