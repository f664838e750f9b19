"""`check_native`: one op, compiled and run on this CPU, against its reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Array, Graph
from support.check_op import make_op
from support.tolerance import assert_close


def check_native(
    op_name: str, arrays: Sequence[Array], attrs: dict[str, Any], factor: float = 1.0
) -> Array:
    """The native result on `arrays`, all given at run time; fails unless it is the reference's."""
    graph = graph_of_op(op_name, arrays, attrs)
    (wanted,) = graph.evaluate(arrays)
    (result,) = run_native(graph, arrays)
    assert_close(result, wanted, factor)
    return result


def graph_of_op(op_name: str, arrays: Sequence[Array], attrs: dict[str, Any]) -> Graph:
    """The graph of one op whose inputs are those of the graph."""
    op = make_op(op_name, arrays, attrs)
    graph = Graph(op_name)
    inputs = [graph.make_input(x.details, f"in{i}") for i, x in enumerate(op.inputs)]
    graph.make_output(graph.make(op_name, inputs, attrs, "x").outputs[0])
    return graph


def run_native(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """All outputs of the compiled graph, one thread."""
    results = compile_model(graph, threads=1)(*arrays)
    several = isinstance(results, (list, tuple))
    return [np.asarray(r) for r in results] if several else [np.asarray(results)]
