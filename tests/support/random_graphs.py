"""Small random graphs: elementwise ops, casts, movement and reductions, for properties that hold of all graphs."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

import graphc.graph_ir.ops  # noqa: F401 - fills the registry
from graphc.base.dtypes import BF16, F32, S32, U8
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor

UNARY = ("neg", "abs", "relu", "square", "sign")
BINARY = ("add", "sub", "mul", "min", "max", "div")


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Two inputs, up to nine ops on them, up to three results."""
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
