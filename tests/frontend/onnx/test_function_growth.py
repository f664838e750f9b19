"""Functions that call others twice: counted before they are expanded."""

from __future__ import annotations

import time

import onnx
import pytest
from onnx import TensorProto, helper

from graphc.base.errors import UnsupportedError
from graphc.frontend import load

OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]


def doubling(functions: int) -> onnx.ModelProto:
    """f0 is a Relu, every further function calls the one before twice."""
    made = []
    for k in range(functions):
        bodies = [("Relu", ""), ("Identity", "")] if k == 0 else [(f"f{k - 1}", "d")] * 2
        nodes = [
            helper.make_node(kind, [source], [result], domain=domain)
            for (kind, domain), source, result in zip(bodies, "at", "tb", strict=True)
        ]
        made.append(helper.make_function("d", f"f{k}", ["a"], ["b"], nodes, OPSETS))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    call = helper.make_node(f"f{functions - 1}", ["x"], ["y"], domain="d")
    graph = helper.make_graph([call], "g", [x], [y])
    return helper.make_model(graph, opset_imports=OPSETS, functions=made, ir_version=8)


def test_what_is_small_enough_is_expanded() -> None:
    assert sum(op.op_name == "relu" for op in load(doubling(4)).ops) in (1, 8)


@pytest.mark.parametrize("functions", [31, 3000])
def test_what_would_not_end_is_refused_at_once(functions: int) -> None:
    begin = time.process_time()
    with pytest.raises(
        UnsupportedError, match="its functions stand for more than 1,000,000 nodes, the most"
    ):
        load(doubling(functions))
    assert time.process_time() - begin < 30
