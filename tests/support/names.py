"""Names that models may have and code may not, and a graph that has them everywhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor

HOSTILE = (
    "", "20.bias", "x²", "½", "é", "e\u0301", "层" * 200, "n" * 10_000, "a\0b", "\ud800", "\udcff", "\n", "\x1b[31m",
    "\u2028", "\u202e", "a b", 'a"b', "a=b", "a,b", "%x", "{}", "x\\", "../../etc", "/", ".", "..", "con", "[/bold]",
    "</script>", "lambda", "store", "load", "define", "f32", "range", "main", "constants", "arena", "i0", "acc", "in0",
    "out0", "x0", "y0", "relu_v1", "tile", "tile_1", "none", "inf", "-3", "1e5", "return", "inputs", "attrs", "graph",
    "temp.result", "____topo-index:0____output-num:0", "*", "[a]", "?", "ret", "ret_1", "a : [#users=1] = Node",
)  # fmt: skip
"""Digits first, characters that some text or file gives a meaning, and words of the languages we write."""

# Without surrogates: two in sequence are another character as soon as they are JSON.
ROWS = [HOSTILE[i : i + 14] for i in range(0, len(HOSTILE) - 13, 12)] + [HOSTILE[-14:]]
"""All of them, as many at a time as `named` takes."""

any_name = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def named(name: Callable[[int], str], result: Callable[[int], str] | None = None) -> Graph:
    """softmax(relu(x w + b)), and exp(relu(x w + b) z): op and value number i called name(i), results result(i)."""
    graph = Graph(name(0))
    x = graph.make_input(LogicalTensor(F32, (4, 8)), name(1))
    z = graph.make_input(LogicalTensor(F32, (4, 16)), name(2))
    w = graph.make_constant(np.arange(128, dtype=np.float32).reshape(8, 16) / 64, name(3))
    b = graph.make_constant(np.arange(16, dtype=np.float32), name(4))
    matmul = graph.make("matmul_core", [x, w], {}, name(5)).outputs[0]
    biased = graph.make("add", [matmul, b], {}, name(6)).outputs[0]
    hidden = graph.make("relu", [biased], {}, name(7)).outputs[0]
    shares = graph.make("softmax", [hidden], {"axis": -1}, name(8)).outputs[0]
    scaled = graph.make("mul", [hidden, z], {}, name(9)).outputs[0]
    powers = graph.make("exp", [graph.make("neg", [scaled], {}, name(10)).outputs[0]], {}, name(11))
    graph.make_output(shares, (result or name)(12))
    graph.make_output(powers.outputs[0], (result or name)(13))
    return graph
