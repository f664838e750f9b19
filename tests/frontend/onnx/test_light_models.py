"""The convolutional networks in the onnx package, compiled: their own expected outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from graphc.driver.compiler import compile as compile_model

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
QUICK = ("shufflenet", "squeezenet", "zfnet512")


def model_parameters() -> list[object]:
    names = sorted(path.stem for path in FOLDER.glob("*.onnx"))
    marks = [
        [] if name.removeprefix("light_") in QUICK else [pytest.mark.exhaustive] for name in names
    ]
    return [pytest.param(name, marks=mark) for name, mark in zip(names, marks, strict=True)]


def expected(name: str) -> np.ndarray:
    proto = onnx.TensorProto()
    proto.ParseFromString((FOLDER / f"{name}_output_0.pb").read_bytes())
    return np.asarray(numpy_helper.to_array(proto))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", model_parameters())
def test_light(name: str) -> None:
    model = compile_model(FOLDER / f"{name}.onnx", threads=1)
    dims = (1, 3, 224, 224)
    count = int(np.prod(dims))
    # What onnx's own runner feeds these models.
    image = (np.arange(count).reshape(dims) / count).astype(np.float32)
    result = np.asarray(model(image)).reshape(expected(name).shape)
    np.testing.assert_allclose(result, expected(name), rtol=1e-4)


def test_the_package_has_them() -> None:
    assert len(model_parameters()) >= 9
