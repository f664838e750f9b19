"""Caches become buffers with room, of which readers see the rows that are filled."""

from __future__ import annotations

import numpy as np

from graphc import Graph
from graphc.base.aliases import Alias
from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.lowering.lower_graph import graph_symbols
from graphc.graph_ir.passes.alias_outputs import ALIASES, alias_outputs

P = size(Symbol("P", 1, 100))


def appended() -> Graph:
    graph = Graph("appended")
    past = graph.make_input(LogicalTensor(F32, (2, P, 3)), "past")
    new = graph.make_input(LogicalTensor(F32, (2, 4, 3)), "new")
    joined = graph.make("concat", [past, new], {"axis": 1}, "joined").outputs[0]
    graph.make_output(joined, "present")
    graph.make_output(graph.make("relu", [joined], name="all").outputs[0], "y")
    graph.make_output(graph.make("neg", [past], name="old").outputs[0], "z")
    return graph


def test_a_concat_becomes_an_update_of_a_buffer() -> None:
    graph = appended()
    alias_outputs(graph, {"present": "past"})
    free = size(Symbol("P_free", 0))
    past, present = graph.inputs[0].outputs[0], graph.outputs[0].inputs[0]
    assert past.details.plain_dims == present.details.plain_dims == (2, P + 4 + free, 3)
    update = present.producer_owner
    assert (update.op_name, update.inputs[0], update.attr("axes")) == (
        "update_in_place",
        past,
        (1,),
    )
    read = {
        op.name: op.inputs[0].producer_owner for op in graph.ops if op.op_name in ("relu", "neg")
    }
    assert {name: (x.op_name, x.inputs[0], x.attr("sizes")) for name, x in read.items()} == {
        "all": ("slice", present, (2, P + 4, 3)),
        "old": ("slice", past, (2, P, 3)),
    }
    assert ALIASES.of(graph) == (Alias(0, 0, 1, P, P + 4),)
    assert [symbol.name for symbol in graph_symbols(graph)] == ["P", "P_free"]


def test_an_update_of_the_same_size_is_in_place() -> None:
    graph = Graph("kept")
    cache = graph.make_input(LogicalTensor(F32, (5, 3)), "cache")
    new = graph.make_input(LogicalTensor(F32, (1, 3)), "new")
    start = graph.make_constant(np.array(2), "start")
    kept = graph.make("update_slice", [cache, new, start], {"axes": (0,)}).outputs[0]
    graph.make_output(kept, "present")
    arrays = [np.zeros((5, 3), np.float32), np.ones((1, 3), np.float32)]
    before = graph.evaluate(arrays)[0]
    alias_outputs(graph, {"present": "cache"})
    assert graph.outputs[0].inputs[0].producer_owner.op_name == "update_in_place"
    assert ALIASES.of(graph) == (Alias(0, 0),)
    assert np.array_equal(graph.evaluate(arrays)[0], before)
