"""Nodes of small known arrays, evaluated while a model is read: so shape computations of exporters become shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..graph_ir.ir.graph import Graph, GraphTensor
from ..graph_ir.rewriting.size_values import size_values
from .op_builder import Value

LARGEST_ARRAY = 1 << 16
"""Elements up to which a computed constant is kept as an array; what is larger is computed by the graph."""


def is_foldable(operands: Iterable[Value]) -> bool:
    """Return whether all are known and small. Arrays of objects hold dynamic sizes."""
    return all(not isinstance(x, GraphTensor) and x.size <= LARGEST_ARRAY for x in operands)


def fold(run: Callable[[Graph], Sequence[Value]]) -> list[Value] | None:
    """The arrays of what `run` builds of constants into a graph, by the NumPy references; None where one is large.

    None as well where a value follows from dynamic sizes otherwise than as an expression: the graph computes it then.
    """
    scratch = Graph("scratch")
    results = run(scratch)
    made = [y.details for op in scratch.ops for y in op.outputs]
    if any(not details.is_known or details.elements > LARGEST_ARRAY for details in made):
        return None
    for value in results:
        if isinstance(value, GraphTensor):
            scratch.make_output(value)
    is_dynamic = any(op.op_name == "dynamic_sizes" for op in scratch.ops)
    found = size_values(scratch) if is_dynamic else scratch.evaluate([])
    if found is None:
        return None
    arrays = iter(found)
    return [next(arrays) if isinstance(value, GraphTensor) else value for value in results]
