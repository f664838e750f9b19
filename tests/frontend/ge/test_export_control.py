"""Control flow as GE nodes that name graphs: what is written gives the same results when it is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.frontend import load
from graphc.frontend.ge import dump_constants, write_ge
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.control import RandomControl, counted, made, small_inputs

M = LogicalTensor(F32, (2, 3))
ONES = np.ones((2, 3), np.float32)


def written(graph: Graph, runs: Sequence[Sequence[Array]]) -> str:
    """The text of a graph, which gives its results."""
    text = write_ge(graph)
    specs = {op.name: str(op.outputs[0].details) for op in graph.inputs}
    again = load(text.encode(), specs, dump_constants(graph))
    for arrays in runs:
        for ours, theirs in zip(graph.evaluate(arrays), again.evaluate(arrays), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
    return text


@pytest.mark.parametrize("seed", range(12))
def test_random_control(seed: int) -> None:
    graph = RandomControl(seed).graph()
    written(graph, [small_inputs(graph, seed, first) for first in (0, 1, 3)])


@pytest.mark.parametrize("count", [None, 300])
def test_a_loop_that_counts_is_a_for(count: int | None) -> None:
    graph = counted([M], lambda g, x, w: [made(g, "add", x, w)], [M], count)
    numbers = [np.array(n) for n in (0, 3)]
    runs = [[ONES, ONES]] if count else [[n, ONES, ONES] for n in numbers]
    text = written(graph, runs)
    assert "Node[type=For]" in text and "Node[type=While]" not in text


def test_a_branch_is_an_if_whose_constants_are_kept_by_graph() -> None:
    dump = Path(__file__).parents[3] / "examples" / "branch_and_loop.txt"
    graph = load(dump, {"input_0": "f32[2,3]", "pred_1": "bool[]"})
    text = written(graph, [[ONES, np.array(holds)] for holds in (True, False)])
    assert re.search(r"Node\[type=If\] \(inputs = \(cond=%pred_1, input_0=%input_0\)", text)
    assert any(key.startswith("If_0/then/") for key in dump_constants(graph))


def test_a_call_of_an_unknown_signature() -> None:
    text = (
        'graph("main"):\n'
        "  %x : [#users=1] = Node[type=Data] (attrs = {index: 0})\n"
        "  %c : [#users=1] = Node[type=PartitionedCall] (inputs = (_input_0=%x), attrs = {_graph_0: %sub})\n"
        "  return (%c)\n"
        'graph("sub"):\n'
        "  %d : [#users=1] = Node[type=Data] (attrs = {index: 0})\n"
        "  %n : [#users=1] = Node[type=Neg] (inputs = (x=%d))\n"
        "  return (%n)\n"
    )
    (y,) = load(text.encode(), {"x": "f32[2,3]"}).evaluate([ONES])
    np.testing.assert_array_equal(y, -ONES)
