"""The loop nest of trees with masks, interpreted: whole vectors of rows, padded ones, and rows that are walked."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32, S32
from graphc.graph_ir.templates.masked_trees import MaskedForest, masked_function
from graphc.graph_ir.templates.tree_ensemble import Forest
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Buffer, Module


@pytest.mark.parametrize("rows", [8, 14, 18, 39])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_tree_of_two_leaves_and_one_of_one(rows: int, threads: int) -> None:
    """-x0 <= 1 ? 10 : 20, and a leaf that says 5; 8 rows form a vector."""
    lists = {
        "ways": np.array([1 << 1 | 1, 0, 0, 0], np.int32),
        "threshold": np.array([1, np.nan, np.nan, np.nan], np.float32),
        "values": np.array([0, 20, 10, 5], np.float32),
        "roots": np.array([0, 3], np.int32),
    }
    masks = {
        "feature": np.array([1], np.int32),
        "bound": np.array([1], np.float32),
        "mask": np.array([~1], np.int32),
        "begins": np.array([0, 1, 1], np.int32),
        "leaves": np.array([20, 10, *[0] * 6, 5, *[0] * 7], np.float32),
    }
    x = np.linspace(-2, 4, rows, dtype=np.float32).reshape(rows, 1)
    x[4] = np.nan
    kinds = {"i": S32, "f": F32}
    given, out = Buffer("x", F32, (rows, 1)), Buffer("out", F32, (rows, 1))
    named = {
        name: Buffer(name, kinds[array.dtype.kind], array.shape)
        for name, array in (lists | masks).items()
    }
    ways, threshold, values, roots = (named[name] for name in lists)
    walked = Forest(
        given, ways, threshold, values, roots, out, depths=(1,), targets=(0,), lanes=2, feature_bits=1,
        planes=2, reduction="add",
    )  # fmt: skip
    feature, bound, mask, begins, leaves = (named[name] for name in masks)
    forest = MaskedForest(walked, feature, bound, mask, begins, leaves, (2,), 8, 4, 8)
    function = masked_function("trees", [given, *named.values(), out], forest, threads, "test")
    result = np.empty((rows, 1), np.float32)
    arrays = [x, *lists.values(), *masks.values(), result]
    interpreter.run(Module((function,)), "trees", arrays)
    assert result[:, 0].tolist() == [15 if -value <= 1 else 25 for value in x[:, 0]]
