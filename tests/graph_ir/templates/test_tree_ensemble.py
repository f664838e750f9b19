"""The loop nest of an ensemble of trees, interpreted, against a walk written down by hand."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32, S32
from graphc.graph_ir.templates.tree_ensemble import Forest, forest_function
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Buffer, Module


@pytest.mark.parametrize(("threads", "bits"), [(1, 1), (2, 1), (1, 13)])
def test_two_trees_in_two_lanes(threads: int, bits: int) -> None:
    """x0 <= 1 ? 10 : 20, and a leaf that says 5; of many features, the row left over is not copied."""
    rows = 9
    sizes = {"ways": S32, "threshold": F32, "values": F32, "roots": S32}
    lists = {
        "ways": np.array([1 << bits, 0, 0, 0], np.int32),
        "threshold": np.array([1, np.nan, np.nan, np.nan], np.float32),
        "values": np.array([0, 20, 10, 5], np.float32),
        "roots": np.array([0, 3], np.int32),
    }
    x = np.linspace(-2, 4, rows, dtype=np.float32).reshape(rows, 1)
    x[4] = np.nan
    rows_in, out_to = Buffer("x", F32, (rows, 1)), Buffer("out", F32, (rows, 1))
    nodes = {name: Buffer(name, dtype, lists[name].shape) for name, dtype in sizes.items()}
    params = [rows_in, *nodes.values(), out_to]
    forest = Forest(
        rows_in, **nodes, out=out_to,
        depths=(1,), targets=(0,), lanes=2, feature_bits=bits, planes=1, reduction="add",
    )  # fmt: skip
    function = forest_function("trees", params, forest, threads, "test")
    out = np.empty((rows, 1), np.float32)
    arrays = [x, *lists.values(), out]
    interpreter.run(Module((function,)), "trees", arrays)
    assert out[:, 0].tolist() == [15 if value <= 1 else 25 for value in x[:, 0]]
