"""Small known arrays are computed while a model is read."""

from __future__ import annotations

import numpy as np

from graphc.base.dtypes import F32
from graphc.frontend.folding import LARGEST_ARRAY, fold, is_foldable
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor


def test_what_is_built_of_constants_becomes_arrays() -> None:
    def run(graph: Graph) -> list[object]:
        x = graph.make_constant(np.array([1.0, -2.0], np.float32))
        return [graph.make("abs", [x]).outputs[0], np.array([3])]

    values = fold(run)  # type: ignore[arg-type]
    assert values is not None
    assert [v.tolist() for v in values] == [[1.0, 2.0], [3]]  # type: ignore[union-attr]


def test_what_is_large_or_depends_on_inputs_is_left_to_the_graph() -> None:
    def run(graph: Graph) -> list[object]:
        zero = graph.make_constant(np.zeros((), np.float32))
        return list(graph.make("broadcast", [zero], {"shape": (LARGEST_ARRAY + 1,)}).outputs)

    assert fold(run) is None  # type: ignore[arg-type]
    assert not is_foldable([Graph().make_input(LogicalTensor(F32, (2,)), "x")])
    assert not is_foldable([np.zeros(LARGEST_ARRAY + 1)])
    assert is_foldable([np.zeros(LARGEST_ARRAY)])
