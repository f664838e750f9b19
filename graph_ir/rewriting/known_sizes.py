"""A graph of dynamic sizes with numbers for them: what references and inspection of one call need."""

from __future__ import annotations

from collections.abc import Mapping

from ...base.dims import symbols_of
from ..ir.graph import Graph


def with_sizes(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """A copy with numbers for the dynamic sizes of its inputs, by name: ops, names, formats and schedules are the same.

    The graph itself if no size is dynamic. Sizes that a run counts stay dynamic. Raise KeyError for a dynamic size
    without a number.
    """
    dims = (one for op in graph.inputs for one in op.outputs[0].details.plain_dims)
    symbols = symbols_of((*dims, *graph.attrs.get("lengths", ())))
    for symbol in symbols:
        _ = sizes[symbol.name]
    return graph.at_sizes(sizes) if symbols else graph
