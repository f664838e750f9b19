"""depthwise_convolution: what it takes, its layouts, and that it means what `convolution` means."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.errors import UserError
from support.check_op import make_op, random_array


def test_it_is_the_convolution() -> None:
    arrays = [random_array("f32", (2, 5, 7, 6)), random_array("f32", (5, 1, 3, 2), 1)]
    attrs = {"groups": 5, "strides": (2, 1), "before": (1, 0), "after": (0, 2)}
    (found,) = make_op("depthwise_convolution", arrays, attrs).reference(arrays)
    (expected,) = make_op("convolution", arrays, attrs).reference(arrays)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("channels", "outputs", "groups"), [(4, 8, 4), (4, 4, 2), (4, 4, 1)])
def test_groups_are_the_channels(channels: int, outputs: int, groups: int) -> None:
    x, w = (
        random_array("f32", (1, channels, 5)),
        random_array("f32", (outputs, channels // groups, 3)),
    )
    with pytest.raises(UserError, match="there must be as many groups as channels and results"):
        make_op("depthwise_convolution", [x, w], {"groups": groups})
