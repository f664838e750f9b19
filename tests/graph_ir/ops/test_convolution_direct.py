"""direct_convolution: the meaning of `convolution`, and the layouts its template takes."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.base.target import GemmTile
from graphc.graph_ir.ir.format import channels_last, parse_format
from graphc.graph_ir.ops.convolution_direct import DirectConvolution
from graphc.graph_ir.schedule.convolution_sizes import geometry_of
from graphc.graph_ir.schedule.direct_convolution import offered
from graphc.graph_ir.schedule.matmul_tile import MatmulBlocking
from graphc.graph_ir.schedule.problem import problem_of
from graphc.graph_ir.schedule.query_format import query_format
from support.check_op import check_op, make_op, random_array
from support.lowered import context


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


def layouts(op: DirectConvolution) -> list[str]:
    texts = []
    for choice in query_format(op, context("avx512")):
        texts.append(" ".join(str(f) for f in (*choice.inputs, *choice.outputs)))
    return texts


def test_layouts() -> None:
    last = layouts(op_of((1, 32, 9, 9), (64, 32, 3, 3)))
    assert sorted(last) == [f"NHWC OHWI{n}o NHWC" for n in (16, 32, 48)]
    few = layouts(op_of((1, 3, 9, 9), (64, 3, 3, 3)))
    assert {"ABDE OHIW32o NHWC", "NHWC OHWI32o NHWC"} <= set(few)
    assert "ABDE ABDE ABDE" in layouts(op_of((1, 32, 9, 9), (64, 32, 1, 1)))
    assert "NWC OWI32o NWC" in layouts(op_of((1, 32, 9), (64, 32, 3)))


def test_cost_is_what_the_model_foresees_beyond_the_best() -> None:
    choices = query_format(op_of((1, 32, 9, 9), (64, 32, 3, 3)), context("avx512"))
    assert choices[0].cost == 0 and all(c.cost > 0 for c in choices[1:])


def test_a_blocking_asked_for_decides_the_panels() -> None:
    op, ctx = op_of((1, 32, 9, 9), (64, 32, 3, 3)), context("avx512")

    for choice in offered(geometry_of(op), ctx):
        asked = replace(ctx, blockings={problem_of(op): choice.blocking})
        (only,) = query_format(op, asked)
        assert only.inputs[1].blocks[-1] == choice.blocking.tile.columns(ctx.target)


def test_channels_last() -> None:
    assert channels_last(4) == parse_format("NHWC", "NCHW")
    assert channels_last(3) == parse_format("NWC", "NCW")


def test_problem_names_the_geometry() -> None:
    op = op_of((1, 32, 9, 9), (64, 32, 3, 3), strides=(2, 2), before=(1, 1))
    assert problem_of(op) == "conv c32i9x9o64r4x4k3x3s2x2p1x1 f32"


def test_a_tile_asked_for_need_not_be_in_the_table() -> None:
    op, ctx = op_of((1, 32, 9, 9), (2, 20, 16, 3, 3), groups=2), context("avx512")
    asked = MatmulBlocking(GemmTile(13, 2), 9, 64, 1)
    (choice,) = query_format(op, replace(ctx, blockings={problem_of(op): asked}))
    assert choice.inputs[1] == parse_format("GOHWI32o")
