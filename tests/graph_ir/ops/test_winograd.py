"""winograd_weights and winograd_convolution: meaning, layouts, and what they reject."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.graph_ir.ops.winograd_form import FORMS
from support.check_op import check_op, make_op, random_array


def slow_convolution(x, w, before, after):
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *zip(before, after, strict=True)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64)).astype(np.float32)


def transformed(w, results):
    return make_op("winograd_weights", [w], {"results": results}).reference([w])[0]


@pytest.mark.parametrize("results", [2, 4])
def test_weights(results: int) -> None:
    g = FORMS[results].weight_matrix()

    def formula(w):
        u = np.einsum("ai,ocij,bj->abco", g, w.astype(np.float64), g)
        return u.reshape(-1, w.shape[1], w.shape[0]).astype(np.float32)

    check_op("winograd_weights", [random_array("f32", (3, 2, 3, 3))], {"results": results}, formula)


@pytest.mark.parametrize("results", [2, 4])
@pytest.mark.parametrize(
    ("size", "before", "after"),
    [((1, 1), (1, 1), (1, 1)), ((5, 6), (0, 0), (0, 0)), ((7, 4), (2, 0), (0, 3)), ((9, 8), (1, 1), (1, 1))],
)  # fmt: skip
def test_it_is_the_convolution(results: int, size, before, after) -> None:
    x, w = random_array("f32", (2, 3, *size)), random_array("f32", (5, 3, 3, 3), 1)
    u = transformed(w, results)
    op = make_op(
        "winograd_convolution", [x, u], {"results": results, "before": before, "after": after}
    )
    (y,) = op.reference([x, u])
    expected = slow_convolution(x, w, before, after)
    assert y.shape == expected.shape == op.outputs[0].details.plain_dims
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    assert op.get_gflop() == 2 * expected.size * 3 * 9 / 1e9


@pytest.mark.parametrize(
    ("shapes", "attrs", "message"),
    [
        ([(1, 2, 4, 4), (16, 2, 3)], {"results": 3}, "results must be 2 or 4, got 3"),
        ([(1, 2, 4, 4), (16, 3, 3)], {"results": 2}, r"u must be f32\[16, C, O\]"),
        ([(1, 2, 1, 4), (16, 2, 3)], {"results": 2}, "the 3 x 3 window must fit into the padded image"),
        ([(1, 2, 4, 4), (16, 2, 3)], {"results": 2, "before": (-1, 0)}, "before must be 0 or more"),
        ([(1, 2, 4, 4), (16, 2, 3), (16, 2, 3)], {"results": 2, "few": [9]}, "others must be u of another form"),
        ([(1, 2, 4, 4), (16, 2, 3), (3, 2, 3, 3)], {"results": 2}, "few must be 1 numbers"),
        ([(1, 2, 4, 4), (36, 2, 3), (16, 2, 3), (3, 2, 3, 3)], {"results": 4, "few": [4, 9]}, "each less than"),
        ([(2, 4, 4), (16, 2, 3)], {"results": 2}, r"x must be f32, u8 or s8\[N, C, H, W\]"),
    ],
)  # fmt: skip
def test_rejected(shapes, attrs, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_op("winograd_convolution", [random_array("f32", s) for s in shapes], attrs)


def test_rejected_weights() -> None:
    with pytest.raises(UserError, match=r"w must be f32 or s8\[O, C, 3, 3\]"):
        make_op("winograd_weights", [random_array("f32", (3, 2, 3, 5))], {"results": 2})
