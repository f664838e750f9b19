"""Attributes that no kernel's file holds: the only value that gives the result, or none."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.base.errors import UnsupportedError
from graphc.frontend.tvm.writer import write_tvm
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.tvm_graphs import one


def attribute(func: str, shapes: list[list[int]], result: list[int], name: str, **hints: str):
    graph = one(func, shapes, result, **hints)
    return next(op.attr(name) for op in graph.ops if name in op.schema.attributes)


@pytest.mark.parametrize(
    ("func", "shapes", "result", "name", "wanted"),
    [
        ("fused_transpose", [[2, 3, 4]], [4, 2, 3], "perm", (2, 0, 1)),
        ("fused_mean", [[2, 1, 4]], [1, 1, 4], "axes", (0, 1)),  # axes of size 1 make no difference
        ("fused_argmax", [[2, 3, 4]], [2, 4], "axis", 1),
        ("fused_take", [[5, 3], [7]], [5, 7], "axis", 1),
        ("fused_stack", [[2, 3], [2, 3]], [2, 2, 3], "axis", None),
        ("fused_concatenate", [[2, 3], [2, 4]], [2, 7], "axis", 1),
        ("fused_repeat", [[2, 3]], [2, 3], "shape", None),
    ],
)
def test_the_only_value_that_fits(func, shapes, result, name, wanted):
    if wanted is None:  # two values fit, or a second attribute is not determined either
        with pytest.raises(UnsupportedError, match="attribute '.*' is not determined"):
            one(func, shapes, result)
    else:
        assert attribute(func, shapes, result, name) == wanted


def test_one_attribute_after_another():
    graph = one("fused_topk", [[2, 10]], [2, 3], [2, 3], is_ascend="False")
    (found,) = (op for op in graph.ops if op.op_name == "top_k")
    assert (found.attr("axis"), found.attr("k")) == (1, 3)
    x = np.array([0.0, 2.0], np.float32)
    graph = one("fused_one_hot", [[2], [], []], [2, 5])
    (hot,) = graph.evaluate([x, np.array(1, np.float32), np.array(0, np.float32)])
    np.testing.assert_array_equal(hot, np.eye(5, dtype=np.float32)[[0, 2]])


def test_nothing_of_what_was_tried_stays_in_the_graph():
    graph = one("fused_transpose_nn_relu", [[2, 3, 4]], [4, 2, 3])
    assert [op.op_name for op in graph.ops] == ["input", "transpose", "relu", "output"]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_kernel_is_named_after_the_operator_of_its_axes(axes: int):
    graph = Graph("windows")
    x = graph.make_input(LogicalTensor(F32, (1, 2, *(5,) * axes)), "x")
    w = graph.make_input(LogicalTensor(F32, (3, 2, *(2,) * axes)), "w")
    y = graph.make("convolution", [x, w], {"strides": (1,) * axes}, "conv").outputs[0]
    graph.make_output(graph.make("max_pool", [y], {"kernel": (2,) * axes}).outputs[0])
    text, _ = write_tvm(graph)
    assert f"fused_nn_conv{axes}d" in text and f"fused_nn_max_pool{axes}d" in text
