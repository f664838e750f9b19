"""Limits that networks of images put on dynamic heights and widths, which reading finds out."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc.base.errors import UserError
from support.images import image


def test_sizes_that_a_network_needs_are_requested(tmp_path) -> None:
    """Skips of a U-Net join what was halved and doubled: the height must be even, which `load` finds out."""
    onnx = pytest.importorskip("onnx")
    h = onnx.helper
    nodes = [
        h.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        h.make_node("Resize", ["p", "", "s"], ["r"], coordinate_transformation_mode="asymmetric",
                    nearest_mode="floor"),
        h.make_node("Concat", ["x", "r"], ["y"], axis=1),
    ]  # fmt: skip
    scales = onnx.numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "s")
    x, y = (
        h.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, c, "H", 6])
        for name, c in (("x", 2), ("y", 4))
    )
    made = h.make_model(
        h.make_graph(nodes, "skip", [x], [y], [scales]), opset_imports=[h.make_opsetid("", 18)]
    )
    model = graphc.compile(made.SerializeToString())
    assert str(model.inputs[0]) == "x: f32[1,2,2*H_2,6]"
    data = image(1, 2, 10, 6)
    largest = data.reshape(1, 2, 5, 2, 3, 2).max((3, 5)).repeat(2, 2).repeat(2, 3)
    assert np.array_equal(model(data), np.concatenate([data, largest], 1))
    with pytest.raises(UserError, match=r"must be f32\[1,2,2\*H_2,6\] with H_2 an integer"):
        model(image(1, 2, 9, 6))
