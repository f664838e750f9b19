"""RoiAlign against ONNX Runtime, where each region may have its own number of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from graphc.base.errors import UserError
from graphc.driver.compiler import compile as compile_model
from graphc.frontend import load
from graphc.frontend.onnx.writer import to_onnx
from support.onnx_models import Array, evaluate, model, node

RNG = np.random.default_rng(2)


def feeds() -> dict[str, Array]:
    """Two images, and regions inside, partly outside, far outside, smaller than a pixel, without area and huge."""
    boxes = [
        [1, 1, 6, 5], [-3, -2, 4, 9], [30, 30, 40, 40], [2.2, 2.1, 2.4, 2.3], [5, 5, 2, 1], [3, 3, 3, 3],
        [-50, -40, 60, 70], [-1, -1, 16, 14], [0.5, 1.5, 55.25, 61],
    ]  # fmt: skip
    return {
        "x": RNG.standard_normal((2, 3, 7, 8)).astype(np.float32),
        "rois": np.array(boxes, np.float32),
        "images": np.arange(9) % 2,
    }


def regions(attrs: dict[str, Any], dims: dict[str, list[Any]]) -> Any:
    return model(
        [node("RoiAlign", "x rois images", **attrs)], dims, dtypes={"images": TensorProto.INT64}
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("samples", [0, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("how", ["half_pixel", "output_half_pixel"])
def test_regions(mode: str, how: str, samples: int) -> None:
    runtime = pytest.importorskip("onnxruntime")
    attrs: dict[str, Any] = {
        "mode": mode, "coordinate_transformation_mode": how, "sampling_ratio": samples,
        "output_height": 2, "output_width": 3, "spatial_scale": 0.5,
    }  # fmt: skip
    given = feeds()
    proto = regions(attrs, {name: list(x.shape) for name, x in given.items()})
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(proto.SerializeToString(), options)
    (wanted,) = session.run(None, given)
    np.testing.assert_allclose(evaluate(proto, given)[0], wanted, rtol=1e-4, atol=1e-5)
    again = to_onnx(load(proto))  # in an opset of which ONNX Runtime 1.32 has no RoiAlign
    np.testing.assert_allclose(evaluate(again, given)[0], wanted, rtol=1e-4, atol=1e-5)
    dynamic = {"x": ["N", 3, "H", "W"], "rois": ["R", 4], "images": ["R"]}
    compiled = compile_model(regions(attrs, dynamic))
    np.testing.assert_allclose(compiled(*given.values()), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_without_end_take_few_steps(mode: str) -> None:
    usual = feeds()
    given = {name: x.copy() for name, x in usual.items()}
    for row, size in enumerate((np.inf, np.nan, 1e30, 3e9)):
        given["rois"][2 * row : 2 * row + 2] = [[-size, -size, size, size], [0, 0, size, size]]
    given["images"][:2] = (1 << 40, -5)
    proto = regions({"mode": mode}, {name: list(x.shape) for name, x in given.items()})
    found = compile_model(proto)(*given.values())
    np.testing.assert_allclose(found[8], evaluate(proto, usual)[0][8], rtol=1e-4, atol=1e-5)


def test_no_regions() -> None:
    given = feeds()
    proto = regions({}, {"x": [2, 3, 7, 8], "rois": [0, 4], "images": [0]})
    none = compile_model(proto)(given["x"], given["rois"][:0], given["images"][:0])
    assert none.shape == (0, 3, 1, 1)


def test_negative_numbers_of_samples_are_refused() -> None:
    proto = regions({"sampling_ratio": -1}, {name: list(x.shape) for name, x in feeds().items()})
    with pytest.raises(UserError, match="samples must be 0 or more, got -1"):
        load(proto)
