"""Networks compiled once for any batch beside those compiled for each."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import graphc
from graphc.bench.networks import NETWORKS
from graphc.bench.open_case import open_model

EXAMPLE = Path(__file__).parents[2] / "examples" / "mlp.onnx"
SMALLEST = {"alexnet": 67, "zfnet": 64, "inception_v1": 64, "inception_v2": 64}
"""Heights of the images that a network needs; 32 is enough for others."""


def model_of(name: str) -> tuple[bytes, tuple[int, ...]]:
    """(a network of the suites with an eighth of its channels, or the example; the shape of one row of its input)."""
    if name == "mlp":
        return EXAMPLE.read_bytes(), (13,)
    size = SMALLEST.get(name, 32)
    return NETWORKS[name](image=size, width=0.125).case().onnx(), (3, size, size)


def differing(name: str, batches: tuple[int, ...], disabled: tuple[str, ...] = ()) -> list[int]:
    """The batches at which the model of any batch has other bits than the one of that batch."""
    model, row = model_of(name)
    dims = ",".join(map(str, row))
    opened = open_model(model, {"x": f"f32[B,{dims}]"})
    anyone = graphc.compile(opened, threads=1, disabled=disabled)
    found = []
    for batch in batches:
        x = np.random.default_rng(batch).standard_normal((batch, *row)).astype(np.float32)
        inputs = {"x": f"f32[{batch},{dims}]"}
        alone = graphc.compile(opened, threads=1, inputs=inputs, disabled=disabled)
        if anyone(x).tobytes() != alone(x).tobytes():
            found.append(batch)
    return found
