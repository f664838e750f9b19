"""depthwise_convolution: what it takes, its layouts, and that it means what `convolution` means."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.base.target import Target
from graphc.graph_ir.schedule.channel_windows import taps_first
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.query_format import query_format
from support.check_op import make_op, random_array


def test_it_is_the_convolution() -> None:
    arrays = [random_array("f32", (2, 5, 7, 6)), random_array("f32", (5, 1, 3, 2), 1)]
    attrs = {"groups": 5, "strides": (2, 1), "before": (1, 0), "after": (0, 2)}
    (found,) = make_op("depthwise_convolution", arrays, attrs).reference(arrays)
    (expected,) = make_op("convolution", arrays, attrs).reference(arrays)
    np.testing.assert_array_equal(found, expected)


def test_layouts_are_channels_last() -> None:
    arrays = [random_array("f32", (1, 4, 8, 8)), random_array("f32", (4, 1, 3, 3))]
    op = make_op("depthwise_convolution", arrays, {"groups": 4})
    (choice,) = query_format(op, LowerContext(Target("avx512")))
    assert choice.inputs[0].order == choice.outputs[0].order == (0, 2, 3, 1)
    assert choice.inputs[1] == taps_first(4)
    np.testing.assert_array_equal(taps_first(4).pack(arrays[1]), arrays[1].transpose(2, 3, 1, 0))


@pytest.mark.parametrize(("channels", "outputs", "groups"), [(4, 8, 4), (4, 4, 2), (4, 4, 1)])
def test_groups_are_the_channels(channels: int, outputs: int, groups: int) -> None:
    x, w = (
        random_array("f32", (1, channels, 5)),
        random_array("f32", (outputs, channels // groups, 3)),
    )
    with pytest.raises(UserError, match="there must be as many groups as channels and results"):
        make_op("depthwise_convolution", [x, w], {"groups": groups})
