"""Nodes of small known arrays, evaluated while a model is read: so shape computations of exporters become shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..graph_ir.ir.graph import Graph, GraphTensor
from .op_builder import Value

LARGEST_ARRAY = 1 << 16
"""Elements up to which a computed constant is kept as an array; what is larger is computed by the graph."""


def is_foldable(operands: Iterable[Value]) -> bool:
    """Whether all are known and small."""
    return all(not isinstance(x, GraphTensor) and x.size <= LARGEST_ARRAY for x in operands)


def fold(run: Callable[[Graph], Sequence[Value]]) -> list[Value] | None:
    """The arrays of what `run` builds of constants into a graph, by the NumPy references; None where one is large."""
    scratch = Graph("scratch")
    results = run(scratch)
    if any(y.details.elements > LARGEST_ARRAY for op in scratch.ops for y in op.outputs):
        return None
    for value in results:
        if isinstance(value, GraphTensor):
            scratch.make_output(value)
    arrays = iter(scratch.evaluate([]))
    return [next(arrays) if isinstance(value, GraphTensor) else value for value in results]
