from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.graph_ir.ops.pool import AvgPool
from support.check_op import ALL, check_op, make_op, random_array
from support.compiled import check_native


def integers(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def slow_pool(x, reduce, kernel, strides, dilations=None, before=None, after=None, ceil_mode=False):
    """`reduce(elements inside x, how many of the window are in x or its padding)` of each window of the last axes."""
    rank = len(kernel)
    dilations, before, after = dilations or (1,) * rank, before or (0,) * rank, after or (0,) * rank
    sizes = x.shape[-rank:]
    axes = []
    for n, k, s, d, b, a in zip(sizes, kernel, strides, dilations, before, after, strict=True):
        extent, positions, start = (k - 1) * d + 1, [], -b
        while start < n and start + extent - s < n + a if ceil_mode else start + extent <= n + a:
            positions.append([start + i * d for i in range(k)])
            start += s
        axes.append(positions)
    lead = x.shape[: x.ndim - rank]
    y = np.zeros((*lead, *map(len, axes)))
    for index in np.ndindex(*y.shape):
        spots = [axes[i][p] for i, p in enumerate(index[len(lead) :])]
        inside = [
            x[(*index[: len(lead)], *at)]
            for at in itertools.product(*spots)
            if all(0 <= p < n for p, n in zip(at, sizes, strict=True))
        ]
        count = np.prod(
            [sum(p < n + a for p in spot) for spot, n, a in zip(spots, sizes, after, strict=True)]
        )
        y[index] = reduce(np.array(inside, float), count)
    return y


GRID = [
    {"kernel": k, "strides": s, "dilations": d, "before": b, "after": a, "ceil_mode": c}
    for k, s, d, (b, a), c in itertools.product(
        [(1, 2), (3, 2)],
        [(1, 1), (2, 3)],
        [(1, 1), (2, 1)],
        [((0, 0), (0, 0)), ((0, 1), (1, 0))],
        [False, True],
    )
]
SIZES = [(1, 5, 9), (2, 6, 7)]
REDUCTIONS = {
    "max_pool": lambda v, _: v.max(initial=-np.inf),
    "min_pool": lambda v, _: v.min(initial=np.inf),
    "sum_pool": lambda v, _: v.sum(),
    "prod_pool": lambda v, _: v.prod(),
    "avg_pool": lambda v, _: v.mean() if v.size else np.nan,
    "lp_pool": lambda v, _: np.sqrt((v * v).sum()),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("op_name", REDUCTIONS)
def test_reference_is_the_definition(op_name):
    for attrs, size in itertools.product(GRID, SIZES):
        x = integers(size)
        expected = slow_pool(x, REDUCTIONS[op_name], **attrs).astype(np.float32)
        (result,) = make_op(op_name, [x], attrs).reference([x])
        np.testing.assert_array_equal(result, expected, str(attrs))


@pytest.mark.exhaustive
@pytest.mark.parametrize("op_name", REDUCTIONS)
def test_native_is_the_reference(op_name):
    for i, attrs in enumerate(GRID):
        check_native(op_name, [integers(SIZES[i % 2], seed=i)], attrs)


@pytest.mark.exhaustive
@pytest.mark.parametrize("op_name", REDUCTIONS)
def test_a_window_of_ceil_mode_may_be_larger_than_the_input(op_name):
    """Exports of EfficientNet have windows of 2,560 over images of 2."""
    x = integers((2, 3, 4))
    attrs: dict[str, Any] = {"kernel": (2560, 9), "strides": (2560, 9), "dilations": (1, 1)}
    attrs |= {"before": (0, 2), "after": (0, 2), "ceil_mode": True}
    expected = slow_pool(x, REDUCTIONS[op_name], **attrs).astype(np.float32)
    (result,) = make_op(op_name, [x], attrs).reference([x])
    np.testing.assert_array_equal(result, expected)
    check_native(op_name, [x], attrs)
    check_native(op_name, [integers((2, 3, 1))], attrs | {"kernel": (3, 2), "before": (0, 0)})
    with pytest.raises(UserError, match="the window must fit into the padded input"):
        make_op(op_name, [x], attrs | {"strides": (2557, 9)})


def test_average_over_padding():
    for i, attrs in enumerate(GRID):
        x = integers(SIZES[i % 2], seed=i)
        expected = slow_pool(x, lambda v, count: v.sum() / count, **attrs).astype(np.float32)
        attrs = {**attrs, "count_include_pad": True}
        (result,) = make_op("avg_pool", [x], attrs).reference([x])
        np.testing.assert_array_equal(result, expected, str(attrs))
        if i % 4 == 0:
            check_native("avg_pool", [x], attrs)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", ALL)
def test_dtypes(dtype):
    x = random_array(dtype, (1, 2, 5))
    attrs = {"kernel": (2,), "before": (1,), "strides": (2,)}
    for op_name in (
        "max_pool",
        "min_pool",
        *(() if dtype == "bool" else ("sum_pool", "prod_pool")),
    ):
        check_op(op_name, [x], attrs, factor=4)
        if dtype in ("s8", "u64", "bf16", "bool"):
            check_native(op_name, [x], attrs)
    if dtype in ("f16", "bf16", "f32", "f64"):
        check_op("avg_pool", [x], attrs, factor=4)
        check_op("lp_pool", [x], {**attrs, "p": 3}, factor=4)


def test_integers_pad_with_the_min_value():
    x = np.full((1, 1, 2), -128, np.int8)
    assert check_native("max_pool", [x], {"kernel": (3,), "before": (1,)}).tolist() == [[[-128]]]


def test_nan_wins_and_infinity_in_the_padding_does_not():
    x = np.array([[[1, np.nan, 2, -np.inf]]], np.float32)
    result = check_native(
        "max_pool", [x], {"kernel": (2,), "strides": (2,), "before": (1,), "after": (1,)}
    )
    np.testing.assert_array_equal(result, [[[1, np.nan, -np.inf]]])
    result = check_native("avg_pool", [x], {"kernel": (1,), "strides": (3,)})
    np.testing.assert_array_equal(result, [[[1, -np.inf]]])


def test_one_norm():
    x = integers((1, 2, 6))
    result = check_native("lp_pool", [x], {"kernel": (3,), "p": 1})
    np.testing.assert_array_equal(
        result, np.abs(np.lib.stride_tricks.sliding_window_view(x, 3, 2)).sum(-1)
    )


@pytest.mark.parametrize("shape", [(0, 2, 4), (1, 0, 4)])
def test_nothing(shape):
    assert check_native("max_pool", [integers(shape)], {"kernel": (2,)}).shape == (*shape[:2], 3)


@pytest.mark.parametrize(
    ("op_name", "x", "attrs", "message"),
    [
        ("max_pool", integers((1, 4)), {}, "attribute 'kernel' must be given, got no attributes"),
        ("max_pool", integers((4,)), {"kernel": (1, 2)},
         "kernel must have one entry or more, and no more than x has axes, got [1, 2] and f32[4]"),
        ("max_pool", integers((1, 4)), {"kernel": (5,)},
         "the window must fit into the padded input on axis 0 of 1, got 5 elements in 0 + 4 + 0"),
        ("sum_pool", np.ones((1, 4), bool), {"kernel": (2,)},
         "input dtype must be a float or an integer, got bool; insert a cast"),
        ("avg_pool", integers((1, 4), np.int32), {"kernel": (2,)},
         "input dtype must be a float, got s32; insert a cast"),
        ("lp_pool", integers((1, 4)), {"kernel": (2,), "p": 0}, "p must be positive, got 0.0"),
        ("lrn", integers((1, 4)), {"size": 0}, "size must be 1 or more, got 0"),
        ("lrn", integers((1, 4), np.int32), {"size": 3}, "input dtype must be a float, got s32; insert a cast"),
    ],
)  # fmt: skip
def test_rejects(op_name, x, attrs, message):
    with pytest.raises(UserError) as error:
        make_op(op_name, [x], attrs)
    assert str(error.value) == f"{op_name} 'x': {message}"


# --- lrn -----------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [1, 2, 3, 5, 17])
@pytest.mark.parametrize("channels", [1, 3, 8])
@pytest.mark.parametrize("beta", [0.75, 0.6])
def test_lrn(size, channels, beta):
    x = random_array("f32", (2, channels, 3, 2))
    attrs = {"size": size, "alpha": 0.5, "beta": beta, "k": 2.0}

    def formula(v):
        y = np.empty_like(v)
        for c in range(channels):
            around = v[:, max(c - (size - 1) // 2, 0) : c + size // 2 + 1]
            y[:, c] = v[:, c] / (2 + 0.5 / size * (around**2).sum(1)) ** beta
        return y

    check_op("lrn", [x], attrs, formula, factor=8)
    check_native("lrn", [x], attrs, factor=8)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
def test_lrn_dtypes(dtype):
    check_op("lrn", [random_array(dtype, (1, 4))], {"size": 3, "axis": -1}, factor=8)


def test_lrn_of_nothing():
    assert check_native("lrn", [integers((0, 3, 2))], {"size": 3}).shape == (0, 3, 2)


def test_counts_of_a_mean_cost_no_more_than_its_positions():
    attrs = {"kernel": (200001,) * 2, "before": (100000,) * 2, "after": (100000,) * 2}
    for inside, count in ((False, 40.0**2), (True, 200001.0**2)):
        op = make_op("avg_pool", [integers((1, 1, 40, 40))], {**attrs, "count_include_pad": inside})
        assert isinstance(op, AvgPool)
        assert np.array_equal(op.counts(), np.full((40, 40), count))
