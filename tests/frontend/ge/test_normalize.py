"""Normalizations of readable dumps and the statistics they give, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.errors import UnsupportedError
from graphc.graph_ir.ir.graph import Array
from support.ge_dumps import RETURN, node, outputs, run
from support.tolerance import assert_close

X = np.random.default_rng(0).standard_normal((2, 4, 5, 3)).astype(np.float32) * 2 + 1
LAST = np.ascontiguousarray(X.transpose(0, 2, 3, 1))
GAMMA, BETA = (np.random.default_rng(i).standard_normal(4).astype(np.float32) for i in (1, 2))
SIZES = {"x": "f32[2,4,5,3]", "g": "f32[4]", "b": "f32[4]"}


def column(v: Array) -> Array:
    return v.reshape(-1, 1, 1)


def normal(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def test_batch_norm_that_trains_and_that_does_not():
    attrs = 'epsilon: 0.001000, data_format: "NHWC", is_training: true'
    lines = node("BatchNorm", "x=%x, scale=%g, offset=%b", attrs, users=5) + outputs(5)
    got = run(lines, {**SIZES, "x": "f32[2,5,3,4]"}, LAST, GAMMA, BETA)
    over = (0, 1, 2)
    mean, variance, count = LAST.mean(over), LAST.var(over), 30
    expected = [
        normal(LAST, over, 1e-3) * GAMMA + BETA,
        mean,
        variance * count / (count - 1),
        mean,
        variance,
    ]
    for mine, wanted in zip(got, expected, strict=True):
        assert_close(mine, wanted, 64)
    attrs = 'data_format: "NCHW", is_training: false'
    operands = "x=%x, scale=%g, offset=%b, mean=%g, variance=%v"
    lines = node("BatchNorm", operands, attrs, users=6) + outputs(3)
    (y, mean, _) = run(lines, {**SIZES, "v": "f32[4]"}, X, GAMMA, BETA, np.abs(BETA))
    spread = column(np.sqrt(np.abs(BETA) + 1e-4))
    assert_close(y, (X - column(GAMMA)) / spread * column(GAMMA) + column(BETA), 64)
    np.testing.assert_array_equal(mean, GAMMA)


def test_groups_and_instances():
    lines = node("GroupNorm", "x=%x, gamma=%g, beta=%b", "num_groups: 2", users=3)
    lines += "  %ret : [#users=1] = get_element[node=%r](0)\n"
    (got,) = run(lines + "\n  return (%ret)\n", SIZES, X, GAMMA, BETA)
    groups = normal(X.reshape(2, 2, 2, 5, 3), (2, 3, 4), 1e-4).reshape(X.shape)
    assert_close(got, groups * column(GAMMA) + column(BETA), 64)
    single = normal(X, (2, 3), 1e-6) * column(GAMMA) + column(BETA)
    lines = node("InstanceNorm", "x=%x, gamma=%g, beta=%b", 'data_format: "NCHW"', users=3)
    results = run(lines + outputs(3), SIZES, X, GAMMA, BETA)
    expected = [single, X.mean((2, 3), keepdims=True), X.var((2, 3), keepdims=True)]
    for mine, wanted in zip(results, expected, strict=True):
        assert_close(mine, wanted, 64)
    lines = node("InstanceNorm", "x=%x, gamma=%g, beta=%b", 'data_format: "NHWC"') + RETURN
    (got,) = run(lines, {**SIZES, "x": "f32[2,5,3,4]"}, LAST, GAMMA, BETA)
    assert_close(got, single.transpose(0, 2, 3, 1), 64)


def test_statistics_that_are_not_given():
    lines = node("GroupNorm", "x=%x, gamma=%g, beta=%b", "num_groups: 2", users=3) + outputs(3)
    with pytest.raises(UnsupportedError) as error:
        run(lines, SIZES, X, GAMMA, BETA)
    assert (
        str(error.value)
        == "GroupNorm 'r': its output 1 is not supported; export the model without it"
    )


def test_layers():
    inputs = {"x": "f32[2,4,5,3]", "g": "f32[5,3]"}
    g = np.random.default_rng(3).standard_normal((5, 3)).astype(np.float32)
    attrs = "begin_norm_axis: 2, begin_params_axis: 2"
    lines = node("LayerNormV3", "x=%x, gamma=%g, beta=%g", attrs, users=3) + outputs(3)
    y, mean, inverse = run(lines, inputs, X, g)
    assert_close(y, normal(X, (2, 3), 1e-5) * g + g, 64)
    assert_close(mean, X.mean((2, 3), keepdims=True), 16)
    assert_close(inverse, 1 / np.sqrt(X.var((2, 3), keepdims=True) + 1e-5), 64)
    lines = node("RmsNorm", "x=%x, gamma=%g", users=2) + outputs(2)
    y, inverse = run(lines, inputs, X, g)
    size = 1 / np.sqrt((X**2).mean((2, 3), keepdims=True) + 1e-6)
    assert_close(y, X * size * g, 64)
    assert_close(inverse, size, 64)
