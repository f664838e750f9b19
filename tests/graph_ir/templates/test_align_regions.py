"""The kernel of align_regions at counts of channels around a vector, between guard pages."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32, F64, S64, DType
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tools.fuzz.guarded import guarded, guarded_copy

RNG = np.random.default_rng(7)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_channels_around_a_vector_between_guard_pages(dtype: DType) -> None:
    boxes = RNG.uniform(-4, 24, (5, 4)).astype(dtype.numpy)
    owners = np.array([0, 1, 1, 0, 1])
    arrays, graph = [boxes, owners], Graph("regions")
    inputs = [
        graph.make_input(LogicalTensor(kind, x.shape), f"x{i}")
        for i, (x, kind) in enumerate(zip(arrays, (dtype, S64), strict=True))
    ]
    for channels in (1, 7, 8, 9, 16, 17, 33):
        arrays.append(RNG.standard_normal((2, 6, 11, channels)).astype(dtype.numpy))
        x = graph.make_input(LogicalTensor(dtype, arrays[-1].shape), f"x{len(arrays) - 1}")
        for largest in (False, True):
            attrs = {"cells": (3, 2), "half_pixel": largest, "largest": largest}
            op = graph.make("align_regions", [x, *inputs], attrs)
            graph.make_output(op.outputs[0])
    expected = graph.evaluate(arrays)
    given = {f"x{i}": guarded_copy(a, "end") for i, a in enumerate(arrays)}
    outputs = [guarded(y.shape, y.dtype, "end") for y in expected]
    compile_model(graph, threads=1).bind(given, outputs)()
    for result, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(result, wanted, atol=1e-5 if dtype == F32 else 1e-12)
