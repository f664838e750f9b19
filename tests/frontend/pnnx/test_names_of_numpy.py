"""Functions with NumPy's names that pnnx leaves as ATen's, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphc.frontend import load
from support.pnnx_models import load_operator, run_operator, write_model

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) % 7 - 2
V = np.array([0, 2, 5], np.int64)
NAN = np.array([1.0, np.nan, np.inf, 1e-9], np.float32)

UNARY: list[tuple[str, Callable[[Any], Any], np.ndarray[Any, Any]]] = [
    ("aten::ravel", torch.ravel, X),
    ("aten::fliplr", torch.fliplr, X),
    ("aten::flipud", torch.flipud, X),
    ("aten::numpy_T", lambda x: x.T, X[0]),
    ("aten::mT", lambda x: x.mT, X),
    *[(f"aten::atleast_{n}d", getattr(torch, f"atleast_{n}d"), x) for n in (1, 2, 3) for x in (X[0], X[0, 0])],
]  # fmt: skip


@pytest.mark.parametrize(("name", "function", "x"), UNARY)
def test_views(name: str, function: Callable[[Any], Any], x: Any, tmp_path: Path) -> None:
    x = np.ascontiguousarray(x)
    (found,) = run_operator(tmp_path, name, [x])
    np.testing.assert_array_equal(found, function(torch.from_numpy(x)).numpy())


@pytest.mark.parametrize("name", ["hstack", "vstack", "dstack", "column_stack"])
@pytest.mark.parametrize("x", [X, X[0], X[0, 0]])
def test_stacks(name: str, x: Any, tmp_path: Path) -> None:
    x = np.ascontiguousarray(x)
    (found,) = run_operator(tmp_path, f"aten::{name}", [x, x + 1])
    wanted = getattr(torch, name)([torch.from_numpy(x), torch.from_numpy(x + 1)])
    np.testing.assert_array_equal(found, wanted.numpy())


def test_lookups_and_comparisons(tmp_path: Path) -> None:
    at = np.array([[0, -1], [5, 23]])
    np.testing.assert_array_equal(run_operator(tmp_path, "aten::take", [X, at])[0], X.take(at))
    values = np.array([[0, 3]], np.float32)
    for invert in (False, True):
        line = f"aten::isin assume_unique=False invert={invert}"
        (found,) = run_operator(tmp_path, line, [X, values])
        np.testing.assert_array_equal(found, np.isin(X, values, invert=invert))
    for equal in (False, True):
        line = f"aten::isclose rtol=1e-5 atol=1e-8 equal_nan={equal}"
        (found,) = run_operator(tmp_path, line, [NAN, NAN + 1e-9])
        np.testing.assert_array_equal(found, np.isclose(NAN, NAN + 1e-9, equal_nan=equal))
    (found,) = run_operator(tmp_path, "aten::float_power", [X, X * 0 + 2])
    assert found.dtype == np.float64 and np.array_equal(found, X.astype(np.float64) ** 2)


def test_identity_matrices(tmp_path: Path) -> None:
    """All arguments are positional: sizes, then dtype, layout, device and pin_memory."""
    words = {"n": "3", "m": "5", "none": "None", "cpu": "cpu", "no": "False"}
    lines = [f"pnnx.Expression e{name} 0 1 {name} expr={text}" for name, text in words.items()]
    for sizes, wanted in (("n", np.eye(3)), ("n m", np.eye(3, 5))):
        count = len(sizes.split()) + 4
        body = [f"aten::eye op {count} 1 {sizes} none none cpu no y", "pnnx.Output out 1 0 y"]
        path = write_model(tmp_path, [*lines, *body])
        (found,) = load(path).evaluate([])
        np.testing.assert_array_equal(found, wanted.astype(np.float32))


def test_slices_of_any_size_are_checked(tmp_path: Path) -> None:
    graph = load_operator(tmp_path, "Tensor.slice dim=1 start=-2 end=2147483647 step=1", [X])
    np.testing.assert_array_equal(graph.evaluate([X])[0], X[:, -2:])
