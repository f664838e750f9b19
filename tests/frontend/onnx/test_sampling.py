"""RoiAlign against the onnx package's own evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from graphc.base.errors import UnsupportedError
from graphc.frontend import load
from support.onnx_models import Array, evaluate, expected, model, node

RNG = np.random.default_rng(2)


def feeds() -> dict[str, Array]:
    """Two images, and regions inside, partly outside, far outside and smaller than a pixel."""
    boxes = [[1, 1, 6, 5], [-3, -2, 4, 9], [30, 30, 40, 40], [2.2, 2.1, 2.4, 2.3]]
    return {
        "x": RNG.standard_normal((2, 3, 7, 8)).astype(np.float32),
        "rois": np.array(boxes, np.float32),
        "images": np.array([0, 1, 1, 0]),
    }


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("how", ["half_pixel", "output_half_pixel"])
def test_regions(mode: str, how: str) -> None:
    attrs: dict[str, Any] = {
        "mode": mode, "coordinate_transformation_mode": how, "sampling_ratio": 2,
        "output_height": 2, "output_width": 3, "spatial_scale": 0.5,
    }  # fmt: skip
    given = feeds()
    proto = model(
        [node("RoiAlign", "x rois images", **attrs)],
        {name: list(x.shape) for name, x in given.items()},
        dtypes={"images": TensorProto.INT64},
    )
    np.testing.assert_allclose(
        evaluate(proto, given)[0], expected(proto, given)[0], rtol=1e-4, atol=1e-5
    )


def test_a_number_of_points_that_depends_on_the_regions() -> None:
    proto = model(
        [node("RoiAlign", "x rois images")],
        {name: list(x.shape) for name, x in feeds().items()},
        dtypes={"images": TensorProto.INT64},
    )
    with pytest.raises(UnsupportedError, match="sampling_ratio=0"):
        load(proto)
