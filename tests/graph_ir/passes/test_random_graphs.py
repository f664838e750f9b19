"""Random graphs mean the same after every pass, alone and in a row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.verifier import verify
from graphc.graph_ir.passes.decompose import decompose
from graphc.graph_ir.passes.eliminate_common import eliminate_common
from graphc.graph_ir.passes.fold_constants import fold_constants
from graphc.graph_ir.passes.remove_dead import remove_dead
from graphc.graph_ir.passes.simplify_algebra import simplify_algebra
from graphc.graph_ir.passes.simplify_movement import simplify_movement
from graphc.graph_ir.text.parser import parse_graph
from graphc.graph_ir.text.printer import print_graph
from support.graphs import CONTEXT, Pass, random_input
from support.random_graphs import graphs

PASSES: tuple[Pass, ...] = (
    remove_dead,
    fold_constants,
    eliminate_common,
    simplify_algebra,
    simplify_movement,
    decompose,
)


@given(graphs(), st.sampled_from([*[(p,) for p in PASSES], PASSES, PASSES * 2]))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_meaning_is_kept(graph: Graph, passes: tuple[Pass, ...]) -> None:
    rng = np.random.default_rng(0)
    inputs = [random_input(rng, op.outputs[0].details) for op in graph.inputs]
    verify(graph)
    before = graph.evaluate(inputs)
    for step in passes:
        digest = graph.hash_contents()
        changed = step(graph, CONTEXT)
        verify(graph)
        assert changed == (graph.hash_contents() != digest), step
        for old, new in zip(before, graph.evaluate(inputs), strict=True):
            wide = old.astype(float), new.astype(float)  # NumPy does not know the NaN of bf16
            np.testing.assert_array_equal(*wide, step.__name__)
    read = parse_graph(print_graph(graph, full=True))
    assert read.compare_contents(graph)
