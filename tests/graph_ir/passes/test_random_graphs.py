"""Random graphs mean the same after every pass, alone and in a row."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.dtypes import BF16, F32, S32, U8
from graphc.graph_ir.graph import Graph, GraphTensor
from graphc.graph_ir.logical_tensor import LogicalTensor
from graphc.graph_ir.parser import parse_graph
from graphc.graph_ir.passes.decompose import decompose
from graphc.graph_ir.passes.eliminate_common import eliminate_common
from graphc.graph_ir.passes.fold_constants import fold_constants
from graphc.graph_ir.passes.remove_dead import remove_dead
from graphc.graph_ir.passes.simplify_algebra import simplify_algebra
from graphc.graph_ir.passes.simplify_movement import simplify_movement
from graphc.graph_ir.printer import print_graph
from graphc.graph_ir.verifier import verify
from support.graphs import CONTEXT, Pass, random_input

UNARY = ("neg", "abs", "relu", "square", "sign")
BINARY = ("add", "sub", "mul", "min", "max", "div")
PASSES: tuple[Pass, ...] = (
    remove_dead,
    fold_constants,
    eliminate_common,
    simplify_algebra,
    simplify_movement,
    decompose,
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    graph = Graph("random")
    dtype = draw(st.sampled_from([F32, F32, S32, U8, BF16]))
    shape = tuple(draw(st.lists(st.sampled_from([1, 1, 2, 3]), max_size=3)))
    tensors = [graph.make_input(LogicalTensor(dtype, shape), f"x{i}") for i in range(2)]
    for _ in range(draw(st.integers(1, 9))):
        tensors.append(draw(_step(graph, tensors)))
    for tensor in draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3)):
        graph.make_output(tensor)
    return graph


def _step(graph: Graph, tensors: list[GraphTensor]) -> st.SearchStrategy[GraphTensor]:
    @st.composite
    def step(draw: st.DrawFn) -> GraphTensor:
        x = draw(st.sampled_from(tensors[-3:]))
        kind = draw(
            st.sampled_from(["unary", "binary", "constant", "cast", "move", "move", "reduce"])
        )
        if kind == "unary":
            return graph.make(draw(st.sampled_from(UNARY)), [x]).outputs[0]
        if kind == "binary":
            same = [y for y in tensors if y.details.dtype == x.details.dtype and _broadcasts(x, y)]
            pair = [x, draw(st.sampled_from(same))]
            return graph.make(draw(st.sampled_from(BINARY)), draw(st.permutations(pair))).outputs[0]
        if kind == "constant":
            value = np.asarray(draw(st.sampled_from([0, 1, 2, 4, 3]))).astype(x.details.dtype.numpy)
            value = -value if x.details.dtype.is_signed and draw(st.booleans()) else value
            pair = [x, graph.make_constant(value)]
            return graph.make(draw(st.sampled_from(BINARY)), draw(st.permutations(pair))).outputs[0]
        if kind == "cast":
            return graph.make(
                "cast", [x], {"dtype": draw(st.sampled_from(["f32", "s32", "u8"]))}
            ).outputs[0]
        if kind == "reduce":
            axes = (
                tuple(draw(st.sets(st.integers(0, x.details.rank - 1)))) if x.details.rank else ()
            )
            name = draw(st.sampled_from(["reduce_sum", "reduce_max"]))
            return graph.make(name, [x], {"axes": axes, "keep_dims": draw(st.booleans())}).outputs[
                0
            ]
        return draw(_move(graph, x))

    return step()


def _move(graph: Graph, x: GraphTensor) -> st.SearchStrategy[GraphTensor]:
    dims = x.details.plain_dims
    ones = (0,) * len(dims)
    most = (slice(1, None) if math.prod(dims) > 40 else slice(None),)[0]
    choices: list[tuple[str, int, dict[str, object]]] = [
        ("reshape", 1, {"shape": (math.prod(dims),)}),
        ("reshape", 1, {"shape": (*dims, 1)}),
        ("transpose", 1, {"perm": tuple(reversed(range(len(dims))))}),
        ("transpose", 1, {"perm": tuple(range(len(dims)))}),
        (
            "slice",
            1,
            {"starts": tuple(d - 1 for d in dims), "steps": (-1,) * len(dims), "sizes": dims},
        ),
        ("slice", 1, {"starts": ones, "steps": (1,) * len(dims), "sizes": dims}),
        ("pad", 1, {"before": ones, "after": ones}),
        ("broadcast", 1, {"shape": (2, *dims)[most]}),
    ]
    if dims:
        choices.append(("concat", 1 if math.prod(dims) > 40 else 2, {"axis": 0}))
    return st.sampled_from(choices).map(lambda c: graph.make(c[0], [x] * c[1], c[2]).outputs[0])


def _broadcasts(x: GraphTensor, y: GraphTensor) -> bool:
    shapes = zip(reversed(x.details.plain_dims), reversed(y.details.plain_dims), strict=False)
    return all(a == b or 1 in (a, b) for a, b in shapes)


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
