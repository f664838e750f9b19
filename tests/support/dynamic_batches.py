"""Networks compiled once for any batch beside those compiled for each."""

from __future__ import annotations

import numpy as np

import graphc
from graphc.bench.dynamic_case import dynamic_model
from graphc.bench.networks import NETWORKS

SMALLEST = {"alexnet": 67, "zfnet": 64, "inception_v1": 64, "inception_v2": 64}
"""Heights of the images that a network needs; 32 is enough for others."""


def model_of(name: str, whole: bool = False) -> tuple[bytes, tuple[int, ...]]:
    """(a network of the suites; the shape of one row of its input).

    Networks have small images and an eighth of their channels, if they are not wanted whole.
    """
    if whole:
        case = NETWORKS[name]().case()
        return case.onnx(), case.inputs["x"][1:]
    size = SMALLEST.get(name, 32)
    return NETWORKS[name](image=size, width=0.125).case().onnx(), (3, size, size)


def differing(name: str, batches: tuple[int, ...], whole: bool = False) -> list[int]:
    """The batches at which the model of any batch has other bits than the one of that batch."""
    model, row = model_of(name, whole)
    dims = ",".join(map(str, row))
    opened = dynamic_model(model, {"x": f"f32[B,{dims}]"})
    anyone = graphc.compile(opened, threads=1)
    found = []
    for batch in batches:
        x = np.random.default_rng(batch).standard_normal((batch, *row)).astype(np.float32)
        inputs = {"x": f"f32[{batch},{dims}]"}
        alone = graphc.compile(opened, threads=1, inputs=inputs)
        if anyone(x).tobytes() != alone(x).tobytes():
            found.append(batch)
    return found
