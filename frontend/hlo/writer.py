"""A graph as HLO text: composite ops as their parts, every op by a row of the table or a function of its family."""

from __future__ import annotations

from ...graph_ir.ir.graph import Graph
from ...graph_ir.passes.decompose import decompose
from ...graph_ir.schedule.context import LowerContext
from ...targets.isa import Target
from .frame import Writer
from .op_table import WRITERS


def write_hlo(graph: Graph) -> str:
    """HLO text equivalent to the graph. UnsupportedError naming every op that cannot be written as HLO.

    The result is always a tuple. Names of inputs are kept as far as HLO allows; composite ops are written as
    their parts.
    """
    writer = Writer(_decomposed(graph), WRITERS)
    text = writer.module()
    writer.finish()
    return text


def _decomposed(graph: Graph) -> Graph:
    """A copy without composite ops, also in subgraphs."""
    graph = graph.copy()
    decompose(graph, LowerContext(Target("generic")))
    for op in graph.ops:
        if op.kind == "control":
            for key, value in list(op.attrs.items()):
                if isinstance(value, Graph):
                    op.set_attr(key, _decomposed(value))
                elif isinstance(value, tuple):
                    op.set_attr(key, [_decomposed(inner) for inner in value])
    return graph
