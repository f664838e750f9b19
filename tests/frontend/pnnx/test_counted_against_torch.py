"""Distinct elements, runs and counts of numbers against PyTorch itself; skipped where it is not installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphc import UserError, compile
from graphc.graph_ir.ir.graph import Array
from support.pnnx_models import annotation, write_model

torch = pytest.importorskip("torch")

NUMBERS = np.random.default_rng(0).integers(0, 5, 12)
FLAGS = ["pnnx.Expression t 0 1 t expr=True", "pnnx.Expression f 0 1 f expr=None"]


def run(folder: Path, op: str, x: Array) -> list[Array]:
    """Return the results of the native code of a model of one operator with three results."""
    names = [f"y{i}" for i in range(3)]
    lines = [
        f"pnnx.Input x 0 1 x #x={annotation(x)}",
        *FLAGS,
        f"{op} {' '.join(names)}",
        *(f"pnnx.Output o{y} 1 0 {y}" for y in names),
    ]
    with compile(write_model(folder, lines), threads=1) as model:
        return list(model(x))


@pytest.mark.parametrize(
    "x", [NUMBERS.reshape(3, 4), (NUMBERS / 4).astype(np.float32), NUMBERS[:1], NUMBERS * 0]
)
def test_distinct_elements(x: Array, tmp_path: Path) -> None:
    found = run(tmp_path, "aten::_unique2 u 4 3 x t t t", x)
    wanted = torch.unique(torch.from_numpy(x), return_inverse=True, return_counts=True)
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(mine, theirs.numpy())


@pytest.mark.parametrize("x", [np.sort(NUMBERS), NUMBERS, NUMBERS[:1], NUMBERS.reshape(2, 6)])
def test_runs_of_equal_elements(x: Array, tmp_path: Path) -> None:
    found = run(tmp_path, "aten::unique_consecutive u 4 3 x t t f", x)
    wanted = torch.unique_consecutive(torch.from_numpy(x), return_inverse=True, return_counts=True)
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(mine, theirs.numpy())


def counts_of(folder: Path, minlength: int, weights: bool) -> Path:
    lines = [
        "pnnx.Input x 0 1 x #x=(12)i64", "pnnx.Input w 0 1 w #w=(12)f32",
        f"pnnx.Expression n 0 1 n expr={minlength}", FLAGS[1],
        f"aten::bincount b 3 1 x {'w' if weights else 'f'} n y", "pnnx.Output o 1 0 y",
    ]  # fmt: skip
    return write_model(folder, lines)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("minlength", [0, 5, 9])
def test_how_often_numbers_occur(weights: bool, minlength: int, tmp_path: Path) -> None:
    w = np.arange(12, dtype=np.float32)
    wanted = torch.bincount(
        torch.from_numpy(NUMBERS), torch.from_numpy(w) if weights else None, minlength
    )
    with compile(counts_of(tmp_path, minlength, weights), threads=1) as model:
        found = model(NUMBERS, w)
        np.testing.assert_array_equal(found, wanted.numpy())
        assert found.dtype == wanted.numpy().dtype
        larger = np.where(np.arange(12) == 3, 300, NUMBERS)  # more than the room of the first call
        assert model(larger, w).shape == (301,)
        with pytest.raises(
            UserError, match=r"size 'b_count', which the data decide, must be in 0\.\., got -1"
        ):
            model(np.where(np.arange(12) == 3, -1, NUMBERS), w)
