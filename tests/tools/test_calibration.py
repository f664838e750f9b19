"""Calibration: runs that samples are split into, ranges by every method, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tools.calibration import batches_of, calibrate, scale_of


def doubled() -> Graph:
    graph = Graph("doubled")
    x = graph.make_input(LogicalTensor(F32, (2, 500)), "x")
    graph.make_output(graph.make("add", [x, x], {}, "twice").outputs[0], "y")
    return graph


def test_ranges_of_inputs_and_computed_values() -> None:
    random = np.random.default_rng(0)
    samples = random.standard_normal((20, 500)).astype(np.float32)
    samples[3, 7], samples[11, 2] = 40, -30
    steps: list[tuple[str, int, int]] = []

    def step(phase: str, done: int, total: int) -> None:
        steps.append((phase, done, total))

    batches = batches_of(doubled(), {"x": samples})
    assert len(batches) == 10
    whole = calibrate(doubled(), ["x", "twice"], batches, step=step)
    assert whole == {"x": (-30.0, 40.0), "twice": (-60.0, 80.0)}
    assert steps[0] == ("ranges", 0, 10) and steps[-1] == ("ranges", 10, 10)
    most = calibrate(doubled(), ["twice"], batches, "percentile", 99.9)["twice"]
    assert -10 < most[0] < -4 and 4 < most[1] < 10
    least = calibrate(doubled(), ["twice"], batches, "mse")["twice"]
    assert -60 < least[0] < -10 and 10 < least[1] < 80


@pytest.mark.parametrize(
    ("limits", "scale", "zero"),
    [
        ((0.0, 25.5), 0.1, 0),
        ((-1.28, 1.27), 0.01, 128),
        ((-255.0, 0.0), 1.0, 255),
        ((0, 0), 1.0, 0),
    ],
)
def test_scales(limits: tuple[float, float], scale: float, zero: int) -> None:
    found = scale_of(limits)
    assert found[0] == pytest.approx(scale) and found[1] == zero


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "calibration inputs must be those of the model, x, got "),
        ({"z": np.zeros((2, 500))}, "calibration inputs must be those of the model, x, got z"),
        (
            {"x": np.zeros((3, 500))},
            r"'x': it must hold samples of f32\[2,500\], got float64 \[3, 500\]",
        ),
        (
            {"x": np.zeros((0, 500))},
            r"'x': it must hold samples of f32\[2,500\], got float64 \[0, 500\]",
        ),
        ({"x": np.full((2, 500), "a")}, r"'x': it must hold samples of f32\[2,500\], got <U1"),
        ({"x": np.zeros((2, 500), np.complex64)}, r"got complex64 \[2, 500\]"),
    ],
)
def test_refused(arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        batches_of(doubled(), arrays)
    bad = {"x": np.full((2, 500), np.inf, np.float32)}
    with pytest.raises(UserError, match="'twice' has values that are not finite; check the inputs"):
        calibrate(doubled(), ["twice"], batches_of(doubled(), bad))


def test_dynamic_sizes() -> None:
    """A run has as few rows as the model allows; sizes of other axes are those of the samples."""
    graph = Graph("open")
    rows, columns = size(Symbol("N", 2, 512)), size(Symbol("S", 1, 512))
    x = graph.make_input(LogicalTensor(F32, (rows, columns)), "x")
    graph.make_output(graph.make("add", [x, x], {}, "twice").outputs[0], "y")
    samples = np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32)
    assert [batch["x"].shape for batch in batches_of(graph, {"x": samples})] == [(2, 5)] * 4
    whole = batches_of(graph, {"x": samples.reshape(2, 4, 5)})
    assert [batch["x"].shape for batch in whole] == [(4, 5)] * 2
    low, high = calibrate(graph, ["twice"], whole)["twice"]
    assert (low, high) == (2 * samples.min(), 2 * samples.max())
    with pytest.raises(
        UserError, match=r"it must hold samples of f32\[N,S\], got float32 \[7, 5\]"
    ):
        batches_of(graph, {"x": samples[:7]})
