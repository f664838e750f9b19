"""The cost of a convolution in other types: between other layers it moves no image into another layout."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.convolution import Convolution
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.convolution_forms import ranked_forms
from graphc.graph_ir.schedule.integer_gain import best_form_cycles
from graphc.targets.isa import Target


@pytest.mark.parametrize("is_inside", [False, True])
def test_the_same_convolution_costs_the_same(is_inside: bool) -> None:
    graph, ctx = Graph("layer"), LowerContext(Target("avx2"), CompileOptions(1))
    x = graph.make_input(LogicalTensor(F32, (1, 16, 112, 112)))
    weights = graph.make_constant(np.zeros((96, 16, 1, 1), np.float32))
    pool = {"kernel": (2, 2), "strides": (1, 1)}
    if is_inside:
        x = graph.make("max_pool", [x], pool).outputs[0]
    op = graph.make("convolution", [x, weights])
    assert isinstance(op, Convolution)
    y = graph.make("max_pool", op.outputs, pool).outputs[0] if is_inside else op.outputs[0]
    graph.make_output(y)
    assert best_form_cycles(op, F32, F32, ctx) == ranked_forms(op, ctx)[0][1]
