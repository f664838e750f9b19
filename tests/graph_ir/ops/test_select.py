import numpy as np
import pytest

from graphc.base.errors import UserError
from support.check_op import ALL, check_op, make_op, random_array


@pytest.mark.parametrize("dtype", ALL)
def test_select(dtype):
    condition = random_array("bool", (3, 1))
    x, y = random_array(dtype, (3, 4), 1), random_array(dtype, (4,), 2)
    check_op("select", [condition, x, y], expected=np.where(condition, x, y))


def test_condition_sets_the_rank():
    condition = random_array("bool", (2, 3))
    x, y = random_array("f32", ()), random_array("f32", (1,), 1)
    assert check_op("select", [condition, x, y]).shape == (2, 3)


@pytest.mark.parametrize(
    ("dtypes", "message"),
    [
        (("u8", "f32", "f32"), "select 'x': condition must be bool, got u8; insert a cast"),
        (("bool", "f32", "f16"), "select 'x': inputs must have one dtype, got f32 and f16; insert a cast"),
    ],
)  # fmt: skip
def test_rejects(dtypes, message):
    with pytest.raises(UserError) as error:
        make_op("select", [random_array(d, (2,)) for d in dtypes])
    assert str(error.value) == message
