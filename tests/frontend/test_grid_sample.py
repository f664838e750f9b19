"""Images read at computed points, against onnx's evaluator."""

import numpy as np
import pytest

from graphc.driver.compiler import compile
from graphc.frontend import load
from support.onnx_models import evaluate, expected, model, node
from support.pnnx_models import operator_lines, write_model

F = np.float32


def sampled(**attributes):
    random = np.random.default_rng(0)
    feeds = {
        "x": random.normal(0, 1, (2, 3, 5, 4)).astype(F),
        "g": random.uniform(-1.6, 1.6, (2, 3, 6, 2)).astype(F),
    }
    shapes = {name: array.shape for name, array in feeds.items()}
    return model([node("GridSample", "x g", **attributes)], shapes, opset=22), feeds


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_modes_and_paddings(mode, padding, align_corners):
    proto, feeds = sampled(mode=mode, padding_mode=padding, align_corners=align_corners)
    (wanted,) = expected(proto, feeds)
    np.testing.assert_allclose(evaluate(proto, feeds)[0], wanted, rtol=1e-5, atol=1e-5)


def test_points_outside_are_zero_whatever_the_image_holds():
    proto, feeds = sampled(mode="linear", padding_mode="zeros")
    feeds["x"][:] = np.inf
    feeds["g"][:] = 3
    np.testing.assert_array_equal(evaluate(proto, feeds)[0], np.zeros((2, 3, 3, 6), F))


@pytest.mark.parametrize(("mode", "same"), [("nearest", "nearest"), ("linear", "bilinear")])
def test_pnnx_says_the_same(tmp_path, mode, same):
    proto, feeds = sampled(mode=mode, padding_mode="border", align_corners=1)
    line = f"F.grid_sample mode={same} padding_mode=border align_corners=True $input=a $grid=b"
    inputs = list(feeds.values())
    path = write_model(tmp_path, operator_lines(line, inputs))
    result = load(path).evaluate(inputs)[0]
    np.testing.assert_allclose(result, expected(proto, feeds)[0], rtol=1e-5, atol=1e-5)


def test_native_code():
    proto, feeds = sampled(mode="cubic", padding_mode="reflection")
    graph = load(proto)
    wanted = graph.evaluate(list(feeds.values()))[0]
    with compile(graph) as compiled:
        np.testing.assert_allclose(compiled(*feeds.values()), wanted, rtol=1e-5, atol=1e-5)
