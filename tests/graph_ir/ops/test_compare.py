import operator

import numpy as np
import pytest

from graphc.base.errors import UserError
from support.check_op import ALL, check_op, make_op, pairs, random_array


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("name", ("eq", "ne", "lt", "le", "gt", "ge"))
def test_compare(name, dtype):
    a, b = pairs(dtype)
    compare = getattr(operator, name)
    expected = [[compare(x, y) for y in b[0].tolist()] for x in a[:, 0].tolist()]
    assert check_op(name, [a, b], expected=np.array(expected)).dtype == bool


def test_rejects_mixed_dtypes():
    message = r"^lt 'x': inputs must have one dtype, got s8 and u8; insert a cast$"
    with pytest.raises(UserError, match=message):
        make_op("lt", [random_array("s8", (2,)), random_array("u8", (2,))])
