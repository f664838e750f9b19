"""Networks compiled for any batch have the bits of those compiled for one: 1, 2, odd, and around a register tile.

Without Winograd convolutions, which are not offered for open sizes. All networks of the suites take 40 s this way; here
is one with residual sums, and the example.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc.bench.networks import NETWORKS
from graphc.bench.open_case import open_model

EXAMPLE = Path(__file__).parents[3] / "examples" / "mlp.onnx"


def model_of(name: str) -> tuple[bytes, tuple[int, ...]]:
    """(the model, the shape of one row of its input)."""
    if name == "mlp":
        return EXAMPLE.read_bytes(), (13,)
    return NETWORKS[name](image=32, width=0.125).case().onnx(), (3, 32, 32)


@pytest.mark.parametrize(
    ("name", "batches"), [("mlp", (1, 2, 11, 13, 64)), ("resnet18", (1, 2, 3, 5, 8))]
)
def test_a_network_of_an_open_batch(name: str, batches: tuple[int, ...]) -> None:
    model, row = model_of(name)
    dims = ",".join(map(str, row))
    opened = open_model(model, {"x": f"f32[B,{dims}]"})
    anyone = graphc.compile(opened, threads=1, disabled=("winograd",))
    for batch in batches:
        x = np.random.default_rng(batch).standard_normal((batch, *row)).astype(np.float32)
        inputs = {"x": f"f32[{batch},{dims}]"}
        alone = graphc.compile(opened, threads=1, inputs=inputs, disabled=("winograd",))
        assert anyone(x).tobytes() == alone(x).tobytes(), batch
