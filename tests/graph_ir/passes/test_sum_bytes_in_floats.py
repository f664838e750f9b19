"""Depthwise convolutions of bytes that are summed in f32: where, and that it changes no bit."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import S8, S32, U8
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.passes.sum_bytes_in_floats import sum_bytes_in_floats
from graphc.graph_ir.schedule.context import LowerContext
from graphc.runtime.executor import CompiledModel
from graphc.targets.isa import Target
from support.depthwise_layer import DEPTHWISE, depthwise_layer
from support.native_functions import runnable_target

VNNI = Target("avx512", features="+avx512f,+avx512bw,+avx512vl,+avx512vnni")


@pytest.mark.parametrize(
    ("graph", "target", "in_floats"),
    [
        (depthwise_layer(form="depthwise_convolution")[0], Target("avx2"), True),
        (
            depthwise_layer(form="depthwise_convolution", bias=0, dtype=S8)[0],
            Target("avx512"),
            True,
        ),
        (depthwise_layer(form="depthwise_convolution")[0], VNNI, False),
        (depthwise_layer(form="depthwise_convolution")[0], Target("generic"), False),
        (depthwise_layer(form="depthwise_convolution", bias=1 << 25)[0], Target("avx2"), False),
        (
            depthwise_layer(((8, 50, 50), (50, 50), {}), U8, "depthwise_convolution")[0],
            Target("avx2"),
            False,
        ),
        (depthwise_layer()[0], Target("avx2"), False),
    ],
    ids=["bias", "none", "vnni", "no fma", "far bias", "long", "no depthwise"],
)
def test_where(graph: Graph, target: Target, in_floats: bool) -> None:
    assert sum_bytes_in_floats(graph, LowerContext(target)) is in_floats
    assert any(op.attr("dtype") == S32 for op in graph.ops if "conv" in op.op_name) is not in_floats
    assert not sum_bytes_in_floats(graph, LowerContext(target))


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["avx512", "avx2"])
def test_the_switch_changes_no_bit(isa: str) -> None:
    (graph, x), found = depthwise_layer(DEPTHWISE[1]), []
    for disabled in (frozenset[str](), frozenset({"float-sums"})):
        made = compile_stages(graph, runnable_target(isa), CompileOptions(disabled=disabled))
        found.append(np.asarray(CompiledModel(made.artifact)(x)))
    np.testing.assert_array_equal(*found)
    np.testing.assert_array_equal(found[0], graph.evaluate([x])[0])
