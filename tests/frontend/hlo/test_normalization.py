"""Batch norms against NumPy, the gradient against differences."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from support.hlo_text import one_op, run

RNG = np.random.default_rng(19)
X = RNG.standard_normal((4, 3, 5))
SCALE, OFFSET = RNG.standard_normal((2, 3))
EPSILON = 1e-3
OTHERS = (0, 2)
TAIL = f"epsilon={EPSILON}, feature_index=1"


def wide(x: np.ndarray) -> np.ndarray:
    return x[:, None]


def normal(x: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return (x - wide(mean)) / np.sqrt(wide(variance) + EPSILON) * wide(SCALE) + wide(OFFSET)


def test_inference() -> None:
    mean, variance = RNG.random((2, 3))
    shapes = ["f64[4,3,5]", *["f64[3]"] * 4]
    operation = f"batch-norm-inference(p0, p1, p2, p3, p4), {TAIL}"
    (got,) = run(one_op(shapes, shapes[0], operation), X, SCALE, OFFSET, mean, variance)
    np.testing.assert_allclose(got, normal(X, mean, variance), rtol=1e-9)


TRAINING = one_op(
    ["f64[4,3,5]", "f64[3]", "f64[3]"],
    "(f64[4,3,5], f64[3], f64[3])",
    f"batch-norm-training(p0, p1, p2), {TAIL}",
)


def test_training() -> None:
    y, mean, variance = run(TRAINING, X, SCALE, OFFSET)
    np.testing.assert_allclose(mean, X.mean(OTHERS), rtol=1e-9)
    np.testing.assert_allclose(variance, X.var(OTHERS), rtol=1e-9)
    np.testing.assert_allclose(y, normal(X, mean, variance), rtol=1e-9)


def test_gradient() -> None:
    dy = RNG.standard_normal(X.shape)
    shapes = ["f64[4,3,5]", "f64[3]", "f64[3]", "f64[3]", "f64[4,3,5]"]
    source = one_op(
        shapes,
        "(f64[4,3,5], f64[3], f64[3])",
        f"batch-norm-grad(p0, p1, p2, p3, p4), {TAIL}",
    )
    dx, d_scale, d_offset = run(source, X, SCALE, X.mean(OTHERS), X.var(OTHERS), dy)

    def loss(x: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> float:
        centered = x - wide(x.mean(OTHERS))
        y = centered / np.sqrt(wide(x.var(OTHERS)) + EPSILON) * wide(scale) + wide(offset)
        return float((y * dy).sum())

    for got, number in ((dx, 0), (d_scale, 1), (d_offset, 2)):
        for position in list(np.ndindex(*got.shape))[::7]:
            ends = []
            for step in (1e-5, -1e-5):
                arrays = [X.copy(), SCALE.copy(), OFFSET.copy()]
                arrays[number][position] += step
                ends.append(loss(*arrays))
            assert abs((ends[0] - ends[1]) / 2e-5 - got[position]) < 1e-6


def test_bad_shapes() -> None:
    bad = TRAINING.replace("p1 = f64[3]", "p1 = f64[4]")
    with pytest.raises(graphc.UserError, match=r"operand 1 must be f64\[3\], got f64\[4\]"):
        run(bad)
    with pytest.raises(graphc.UserError, match="feature_index must be an axis of .*, got 3"):
        run(TRAINING.replace("feature_index=1", "feature_index=3"))
