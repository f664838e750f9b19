"""Operators of ATen that no table has, which PyTorch takes apart, and statistics of NumPy's names, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphc
from graphc.base.errors import UnsupportedError
from graphc.frontend import load
from support.pnnx_models import annotation, write_model

F = torch.nn.functional
RNG = np.random.default_rng(3)
X, Y = RNG.standard_normal((2, 3, 4)).astype(np.float32)
P = RNG.random((3, 4)).astype(np.float32)
LABELS, WEIGHTS = np.array([2, 0, 3]), np.array([0.5, 1, 2, 0], np.float32)
LISTS = np.array([[3, 0, -1, 1], [0, -1, 2, 3], [1, 2, 3, -1]])
COUNTS = np.array([2, 0, 1, 3])

CASES: dict[str, tuple[list[Any], Callable[..., Any]]] = {
    "huber_loss": ([X, Y, 1, 0.7], lambda x, y, *_: F.huber_loss(x, y, delta=0.7)),
    "binary_cross_entropy_with_logits": (
        [X, P, None, None, 2],
        lambda x, y, *_: F.binary_cross_entropy_with_logits(x, y, reduction="sum"),
    ),
    "kl_div": ([X, P, 0, False], lambda x, y, *_: F.kl_div(x, y, reduction="none")),
    "cross_entropy_loss": (
        [X, LABELS, WEIGHTS, 1, -100, 0.1],
        lambda x, y, w, *_: F.cross_entropy(x, y, w, label_smoothing=0.1),
    ),
    "nll_loss_nd": ([X, LABELS, None, 2, 3], lambda x, y, *_: F.nll_loss(x, y, None, None, 3, None, "sum")),
    "multilabel_margin_loss": (
        [X, LISTS, 0],
        lambda x, y, *_: F.multilabel_margin_loss(x, y, reduction="none"),
    ),
    "triplet_margin_loss": (
        [X, Y, P, 0.5, 1.0, 1e-6, True, 1],
        lambda x, y, z, *_: F.triplet_margin_loss(x, y, z, 0.5, 1.0, swap=True),
    ),
    "renorm": ([X, 1.0, 1, 0.5], torch.renorm),
    "addr": ([X, Y[:, 0], P[0], 0.5, 2], lambda x, y, z, *_: torch.addr(x, y, z, beta=0.5, alpha=2)),
    "rot90": ([X, 3, [0, 1]], torch.rot90),
    "kron": ([X, Y], torch.kron),
    "linalg_vecdot": ([X, Y, -1], lambda x, y, _: torch.linalg.vecdot(x, y)),
    "cov": ([X, 0, COUNTS, None], lambda x, _, f, __: torch.cov(x, correction=0, fweights=f)),
    "corrcoef": ([X], torch.corrcoef),
    "combinations": ([X[0], 3, True], torch.combinations),
}  # fmt: skip


def written(type_name: str, values: list[Any], dims: dict[int, str] | None = None) -> list[str]:
    """The lines of a model of one operator as the tool writes them: numbers are expressions, arguments by position."""
    lines = []
    for i, value in enumerate(values):
        if isinstance(value, np.ndarray):
            shape = (dims or {}).get(i, annotation(value))
            lines.append(f"pnnx.Input in_{i} 0 1 {i} #{i}={shape}")
        else:
            text = "".join(str(value).split())
            lines.append(f"pnnx.Expression expr_{i} 0 1 {i} expr={text}")
    count = len(values)
    call = f"aten::{type_name} op {count} 1 {' '.join(map(str, range(count)))} y"
    return [*lines, call, "pnnx.Output out 1 0 y"]


@pytest.mark.parametrize("name", CASES)
def test_calls_by_position(name: str, tmp_path: Path) -> None:
    values, function = CASES[name]
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    (found,) = load(write_model(tmp_path, written(name, values))).evaluate(arrays)
    given = [
        torch.from_numpy(np.ascontiguousarray(v)) if isinstance(v, np.ndarray) else v
        for v in values
    ]
    wanted = function(*given).numpy()
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["huber_loss", "linalg_vecdot", "nll_loss_nd"])
def test_dynamic_sizes(name: str, tmp_path: Path) -> None:
    values, function = CASES[name]
    dims = {0: "(?,4)f32", 1: "(?)i64" if name == "nll_loss_nd" else "(?,4)f32"}
    model = graphc.compile(write_model(tmp_path, written(name, values, dims)), threads=1)
    for n in (1, 2, 7):
        x, y = RNG.standard_normal((2, n, 4)).astype(np.float32)
        y = np.arange(n) % 4 if name == "nll_loss_nd" else y
        wanted = function(torch.from_numpy(x), torch.from_numpy(y), *values[2:])
        np.testing.assert_allclose(model(x, y), wanted.numpy(), rtol=1e-5, atol=1e-5)


def test_dynamic_sizes_that_pytorch_would_fix_are_refused(tmp_path: Path) -> None:
    lines = written("linalg_matrix_exp", [np.ones((3, 3), np.float32)], {0: "(?,3)f32"})
    with pytest.raises(UnsupportedError, match="a call that torch.export does not take apart"):
        load(write_model(tmp_path, lines))


def test_what_pytorch_does_not_take_apart_is_refused_with_its_reason(tmp_path: Path) -> None:
    values = [
        np.zeros((6, 2, 5), np.float32),
        np.ones((2, 3), np.int64),
        [6, 6],
        [3, 2],
        0,
        0,
        False,
    ]
    with pytest.raises(
        UnsupportedError, match="aten::ctc_loss 'op': a call that torch.export does"
    ):
        load(write_model(tmp_path, written("ctc_loss", values)))


def test_quotients_of_integers_have_the_type_that_the_file_says(tmp_path: Path) -> None:
    x = np.array([-7, 7, -8, 8])
    lines = [
        "pnnx.Input a 0 1 0 #0=(4)i64",
        "pnnx.Expression e 1 1 0 y expr=div(@0,3) #0=(4)i64 #y=(4){}",
        "pnnx.Output out 1 0 y",
    ]
    for kind, wanted in (("i64", x // 3), ("f32", (x / 3).astype(np.float32))):
        model = write_model(tmp_path, [line.replace("{}", kind) for line in lines])
        (found,) = load(model).evaluate([x])
        np.testing.assert_array_equal(found, wanted)
