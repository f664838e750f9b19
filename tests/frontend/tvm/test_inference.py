"""Attributes that no kernel's file holds: the only value that gives the result, or none."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.base.errors import UnsupportedError
from graphc.frontend import load
from graphc.frontend.tvm.writer import write_tvm
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.tvm_graphs import graph_json, one


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
        ("fuse_pad", [[1, 3, 4, 4]], [1, 3, 6, 6], "before", (0, 0, 1, 1)),
        ("fuse_pad", [[1, 3, 4, 4]], [1, 3, 5, 4], "before", None),  # before or after
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


def test_blocked_images_of_nnvm():
    """Layouts that the kernel's end tells, and scalars and layouts that the caller gives for all kernels at once."""
    x, slope = (
        np.random.default_rng(0).standard_normal((1, 2, 3, 3, 4), np.float32),
        np.arange(8, dtype=np.float32),
    )
    plain = x.transpose(0, 1, 4, 2, 3).reshape(1, 8, 3, 3)
    name = "fuse___layout_transform___prelu"
    (y,) = one(name, [[1, 2, 3, 3, 4], [8]], [1, 8, 3, 3]).evaluate([x, slope])
    np.testing.assert_array_equal(y, np.where(plain < 0, plain * slope[:, None, None], plain))
    (y,) = one("fuse___layout_transform___flatten", [[1, 2, 3, 3, 4]], [1, 72]).evaluate([x])
    np.testing.assert_array_equal(y, plain.reshape(1, 72))
    name = "fuse___sub_scalar_____mul_scalar_____layout_transform__"
    with pytest.raises(UnsupportedError, match="say --attr 'k0.__sub_scalar__.scalar=...'"):
        one(name, [[1, 8, 3, 3]], [1, 2, 3, 3, 4])
    hints = {"__sub_scalar__.scalar": "1", "__mul_scalar__.scalar": "0.5"}
    (y,) = one(name, [[1, 8, 3, 3]], [1, 2, 3, 3, 4], **hints).evaluate([plain])
    np.testing.assert_array_equal(y, (x - 1) * 0.5)


def test_a_pattern_gives_layouts():
    arguments = {"x": [1, 5, 5, 3], "w": [3, 3, 3, 4]}
    text = graph_json(arguments, [("fuse_conv2d_clip", [0, 1], [[1, 5, 5, 4]])], [2])
    hints = {"*.layout": "NHWC", "*.kernel_layout": "HWIO", "*.a_min": "0", "*.a_max": "6"}
    graph = load(text.encode(), attrs=hints)
    (op,) = (op for op in graph.ops if op.op_name == "convolution")
    assert op.inputs[1].details.plain_dims == (4, 3, 3, 3) and op.attr("before") == (1, 1)
