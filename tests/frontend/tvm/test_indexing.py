"""Parts, copies and orders of elements, and normalizations, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.graph_ir.ir.graph import Array
from support.tolerance import assert_close
from support.tvm_graphs import one

X = np.random.default_rng(0).standard_normal((2, 4, 5)).astype(np.float32)
G, B = X[0, :, 0].copy(), X[1, :, 1].copy()


def normal(x: Array, axes: tuple[int, ...], epsilon: float = 1e-3) -> Array:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


@pytest.mark.parametrize(
    ("func", "operands", "expected", "hints"),
    [
        ("fused_stack", [X, X + 1, X], np.stack([X, X + 1, X], 1), {}),
        ("fused_tile", [X], np.tile(X, (3, 1, 2)), {}),
        ("fused_tile", [X], np.tile(X, (2, 1, 1, 1)), {"reps": "(2, 1, 1, 1)"}),
        ("fused_repeat", [X], X.repeat(2, 1), {"repeats": "2", "axis": "1"}),
        ("fused_reverse", [X], X[:, ::-1], {"axis": "1"}),
        ("fused_nn_pad", [X], np.pad(X, ((0, 0), (1, 2), (0, 1)), constant_values=2),
         {"pad_width": "[[0, 0], [1, 2], [0, 1]]", "pad_value": "2"}),
        ("fused_split", [X], X[:, :2], {"indices_or_sections": "[2]", "axis": "1"}),
        ("fused_elemwise_sum_nn_relu", [X, X, -3 * X], np.maximum(-X, 0), {}),
        ("fused_topk", [X], -np.sort(-X, -1)[..., :2], {"axis": "-1", "is_ascend": "0", "ret_type": "'values'"}),
        ("fused_nn_instance_norm", [X, G, B], normal(X, (2,)) * G[:, None] + B[:, None], {"epsilon": "1e-3"}),
        ("fused_nn_group_norm", [X, G, B], normal(X.reshape(2, 2, 2, 5), (2, 3)).reshape(X.shape) * G[:, None]
         + B[:, None], {"epsilon": "1e-3", "num_groups": "2"}),
        ("fused_nn_l2_normalize", [X], X / np.sqrt((X**2).sum(1, keepdims=True)), {"axis": "1", "eps": "1e-9"}),
    ],
)  # fmt: skip
def test_kernels(func, operands, expected, hints):
    shapes = [list(x.shape) for x in operands]
    others = [[2, 2, 5]] if func == "fused_split" else []
    graph = one(func, shapes, list(expected.shape), *others, **hints)
    assert_close(graph.evaluate(operands)[0], expected, 64)
