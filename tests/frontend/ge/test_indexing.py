"""Gathers, scatters, Einstein sums and what moves elements around, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.errors import GraphcError
from support.ge_dumps import RETURN, const, node, outputs, run
from support.tolerance import assert_close

X = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
PAIRS = np.array([[[0, 1], [2, 3]], [[1, 0], [2, 3]]])
ROWS = np.array([[3, 0], [1, 1], [2, 3]])


def scattered(start, indices, updates, ufunc):
    result = start.copy()
    ufunc.at(result, tuple(np.moveaxis(indices, -1, 0)), updates)
    return result


def replaced(start, indices, updates):
    result = start.copy()
    result[tuple(np.moveaxis(indices, -1, 0))] = updates
    return result


UPDATES = np.random.default_rng(1).standard_normal((2, 2, 5)).astype(np.float32)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (node("GatherNd", "x=%x, indices=%i"), X[PAIRS[..., 0], PAIRS[..., 1]]),
        (const("s", "[3 4 5]") + node("ScatterNd", "indices=%i, x=%u, shape=%s"),
         scattered(np.zeros_like(X), PAIRS, UPDATES, np.add)),
        (node("TensorScatterUpdate", "x=%x, indices=%i, updates=%u"), replaced(X, PAIRS, UPDATES)),
        (node("TensorScatterAdd", "x=%x, indices=%i, updates=%u"), scattered(X, PAIRS, UPDATES, np.add)),
        (node("TensorScatterSub", "x=%x, indices=%i, updates=%u"), scattered(X, PAIRS, UPDATES, np.subtract)),
        (node("TensorScatterMax", "x=%x, indices=%i, updates=%u"), scattered(X, PAIRS, UPDATES, np.maximum)),
    ],
)  # fmt: skip
def test_tuples_of_indices(line, expected):
    inputs = {"x": "f32[3,4,5]", "i": "s64[2,2,2]", "u": "f32[2,2,5]"}
    (got,) = run(line + RETURN, inputs, X, PAIRS, UPDATES)
    assert_close(got, expected, 4)


def test_gathers_of_a_batch():
    lines = (
        const("a", "[1]") + node("GatherV2", "x=%x, indices=%i, axis=%a", "batch_dims: 1") + RETURN
    )
    (got,) = run(lines, {"x": "f32[3,4,5]", "i": "s64[3,2]"}, X, ROWS)
    np.testing.assert_array_equal(got, np.stack([x[r] for x, r in zip(X, ROWS, strict=True)]))
    lines = lines.replace("[1]", "[2]")
    (got,) = run(lines, {"x": "f32[3,4,5]", "i": "s64[3,2]"}, X, ROWS)
    np.testing.assert_array_equal(got, np.stack([x[:, r] for x, r in zip(X, ROWS, strict=True)]))


@pytest.mark.parametrize(
    ("equation", "count"),
    [("abc,dbc->ad", 2), ("abc,abc->b", 2), ("abc->cab", 1), ("...c,...c->...", 2), ("abc,dbc,dae->be", 3)],
)  # fmt: skip
def test_einstein_sums(equation, count):
    arrays = [X, X + 1, X[:, :3] * 2][:count]
    names = "xyz"[:count]
    inputs = {name: f"f32{list(x.shape)}" for name, x in zip(names, arrays, strict=True)}
    operands = ", ".join(f"x_{i}=%{name}" for i, name in enumerate(names))
    lines = node("Einsum", operands, f'equation: "{equation}", N: {count}') + RETURN
    (got,) = run(lines, inputs, *arrays)
    assert_close(got, np.einsum(equation, *arrays), 64)


SQUARE = np.arange(2 * 4 * 4 * 8, dtype=np.float32).reshape(2, 4, 4, 8)


def packed(x):
    return x.reshape(2, 2, 2, 2, 2, 8).transpose(0, 1, 3, 2, 4, 5).reshape(2, 2, 2, 32)


def unpacked(x, order):
    parts = x.reshape((2, 4, 4, 2, 2, 2))
    axes = (0, 1, 3, 2, 4, 5) if order == "DCR" else (0, 1, 4, 2, 5, 3)
    return parts.transpose(axes).reshape(2, 8, 8, 2)


@pytest.mark.parametrize(
    ("line", "x", "expected"),
    [
        (node("SpaceToDepth", "x=%x", "block_size: 2"), SQUARE, packed(SQUARE)),
        (node("DepthToSpace", "x=%x", "block_size: 2"), SQUARE, unpacked(SQUARE, "DCR")),
        (node("DepthToSpace", "x=%x", 'block_size: 2, mode: "CRD"'), SQUARE, unpacked(SQUARE, "CRD")),
        (node("DepthToSpace", "x=%x", 'block_size: 2, data_format: "NCHW"'), SQUARE.transpose(0, 3, 1, 2).copy(),
         unpacked(SQUARE, "DCR").transpose(0, 3, 1, 2)),
        (const("p", "[1 0 0 3 1 5]") + node("MirrorPad", "x=%x, paddings=%p", 'mode: "SYMMETRIC"'), X,
         np.pad(X, ((1, 0), (0, 3), (1, 5)), mode="symmetric")),
        (const("k", "[1]") + node("Trilu", "x=%x, k=%k", "upper: false"), X, np.tril(X, 1)),
        (node("Trilu", "x=%x"), X, np.triu(X)),
        (node("Bitcast", "x=%x", "type: 3"), X, X.view(np.int32)),
        (node("LpNorm", "x=%x", "axes: {1}"), X, np.sqrt((X**2).sum(1))),
        (node("LpNorm", "x=%x", "p: 3, axes: {1}"), X, (np.abs(X) ** 3).sum(1) ** (1 / 3)),
    ],
)  # fmt: skip
def test_what_is_moved(line, x, expected):
    (got,) = run(line + RETURN, {"x": f"f32{list(x.shape)}"}, x)
    assert_close(got, expected, 16)


def test_deviations_shapes_and_indices_known_beforehand():
    lines = node("ReduceStd", "x=%x", "dim: {1, 2}", users=2) + outputs(2)
    spread, mean = run(lines, {"x": "f32[3,4,5]"}, X)
    assert_close(spread, X.std((1, 2), ddof=1), 16)
    assert_close(mean, X.mean((1, 2)), 16)
    lines = node("ShapeN", "x_0=%x, x_1=%y", users=2) + outputs(2)
    shapes = run(lines, {"x": "f32[3,4,5]", "y": "f32[2]"}, X, X[:2, 0, 0])
    assert [shape.tolist() for shape in shapes] == [[3, 4, 5], [2]]
    lines = const("c", "[0 2 1]") + node("Where", "x=%c", name="w")
    lines += node("GatherNd", "x=%x, indices=%w") + RETURN
    (got,) = run(lines, {"x": "f32[3,4,5]"}, X)
    np.testing.assert_array_equal(got, X[[1, 2]])


def test_indices_of_the_text_stay_integers():
    """Their dtype is only guessed, but it is not that of what they index."""
    rows = np.array([2, 0], np.float32)
    lines = const("i", "[1 0]") + node("GatherElements", "x=%x, index=%i", "dim: 0") + RETURN
    (got,) = run(lines, {"x": "f32[2]"}, rows)
    np.testing.assert_array_equal(got, rows[::-1])


def test_softmax_of_half_in_single_precision():
    half = X[0].astype(np.float16)
    lines = node("SoftmaxV2", "x=%x", "axes: {-1}, half_to_float: true") + RETURN
    (got,) = run(lines, {"x": "f16[4,5]"}, half)
    powers = np.exp(half.astype(np.float32))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, powers / powers.sum(-1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (node("SoftmaxV2", "x=%x", "axes: {0, 1}"),
         "SoftmaxV2 'r': attribute 'axes' must be one integer, got (0, 1)"),
        (node("Where", "x=%x"), "Where 'r': x ('x') that depends on the model's inputs is not supported; "
        "fix the inputs that decide it (`--constant`)"),
        (node("Einsum", "x_0=%x", 'equation: "ab>b", N: 1'), "Einsum 'r': equation=ab>b is not supported; "
        "export the model without it"),
        (node("Einsum", "x_0=%x", 'equation: "ab,bc->ac", N: 1'), "Einsum 'r': there must be 2 tensors, got 1 inputs"),
        (node("GatherNd", "x=%x, indices=%i"),
         "GatherNd 'r': indices must have 1 to 3 entries on their last axis, got s64[2,4]"),
        (const("p", "[4 0 0 0 0 0]") + node("MirrorPad", "x=%x, paddings=%p", 'mode: "SYMMETRIC"'),
         "MirrorPad 'r': paddings of axis 0 must be 0 to 3, got 4 and 0"),
        (node("Bitcast", "x=%x", "type: 9"), "Bitcast 'r': a bitcast of f32 to s64 is not supported; "
        "export the model without it"),
        (node("SpaceToDepth", "x=%x", "block_size: 2"),
         "SpaceToDepth 'r': x must be an image, got f32[3,4,5]"),
    ],
)  # fmt: skip
def test_what_cannot_be_done(line, message):
    with pytest.raises(GraphcError) as error:
        run(line + RETURN, {"x": "f32[3,4,5]", "i": "s64[2,4]"})
    assert str(error.value) == message
