"""Depthwise convolutions of bytes by multiply-adds of f32: exact for windows, channels and padding of all kinds."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import S8, U8, DType
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.schedule.context import LowerContext
from graphc.runtime.executor import CompiledModel
from graphc.targets.isa import Target
from support.depthwise_layer import DEPTHWISE, depthwise_layer
from support.lowered import check_interpreted
from support.native_functions import runnable_target


def test_interpreted() -> None:
    check_interpreted(
        depthwise_layer(DEPTHWISE[3])[0], LowerContext(Target("avx2"), CompileOptions(threads=1))
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [U8, S8], ids=str)
def test_native(dtype: DType) -> None:
    for number, case in enumerate(DEPTHWISE if dtype == U8 else DEPTHWISE[1:2]):
        graph, x = depthwise_layer(case, dtype, bias=number % 2 * 500)
        model = CompiledModel(compile_stages(graph, runnable_target("avx2")).artifact)
        np.testing.assert_array_equal(model(x), graph.evaluate([x])[0])
