"""direct_convolution: the meaning of `convolution`, and the layouts its template takes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.graph_ir.ops.convolution import DirectConvolution
from support.check_op import check_op, make_op, random_array


def op_of(x: tuple[int, ...], w: tuple[int, ...], **attrs: object) -> DirectConvolution:
    op = make_op("direct_convolution", [np.ones(s, np.float32) for s in (x, w)], attrs)
    assert isinstance(op, DirectConvolution)
    return op


@pytest.mark.parametrize("groups", [1, 2])
def test_meaning(groups: int) -> None:
    x, w = random_array("f32", (2, 4, 5)), random_array("f32", (6, 4 // groups, 3), 1)
    attrs = {"before": (1,), "strides": (2,), "groups": groups}
    wanted = check_op("convolution", [x, w], attrs)
    grouped = w.reshape(2, 3, 2, 3) if groups > 1 else w
    assert np.array_equal(check_op("direct_convolution", [x, grouped], attrs), wanted)


def test_weights_of_groups_have_them_as_an_axis() -> None:
    message = (
        "direct_convolution 'x': w of several groups must be [groups, O / groups, C / groups, kernel...], "
        "got f32[6,2,3] for 2 groups and x f32[2,4,5]; reshape it"
    )
    with pytest.raises(UserError, match=re.escape(message)):
        op_of((2, 4, 5), (6, 2, 3), groups=2)
