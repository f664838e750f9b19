"""repeat: values, what it refuses, and that resizing to a whole multiple is one."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import by_name
from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.decompose import decompose
from support.check_op import ALL, check_op, make_op, random_array
from support.lowered import context


@pytest.mark.parametrize("dtype", ALL)
def test_every_dtype(dtype: str) -> None:
    x = random_array(dtype, (2, 3))
    check_op("repeat", [x], {"counts": (2, 3)}, x.repeat(2, 0).repeat(3, 1))


def test_counts_below_one_are_refused() -> None:
    with pytest.raises(UserError, match=r"^repeat 'x': counts must be at least 1, got \[1, 0\]"):
        make_op("repeat", [np.zeros((2, 4), np.float32)], {"counts": (1, 0)})


@pytest.mark.parametrize(
    ("shape", "mode", "ops"),
    [
        ((1, 3, 8, 15), "asymmetric", ["repeat"]),
        ((1, 3, 8, 15), "half_pixel", ["repeat"]),
        ((1, 3, 6, 15), "asymmetric", ["repeat", "gather"]),
        ((1, 3, 2, 5), "asymmetric", ["gather"]),
    ],
)
def test_resizing_to_multiples(shape: tuple[int, ...], mode: str, ops: list[str]) -> None:
    graph = Graph("resized")
    x = graph.make_input(LogicalTensor(by_name("f32"), (1, 3, 4, 5)), "x")
    attrs = {"shape": shape, "mode": "nearest", "nearest_mode": "floor", "coordinates": mode}
    if mode == "half_pixel":
        attrs["nearest_mode"] = "round_prefer_floor"
    graph.make_output(graph.make("resize", [x], attrs).outputs[0])
    decompose(graph, context())
    made = [op.op_name for op in graph.ops if op.kind not in ("source", "sink")]
    assert made == ops
