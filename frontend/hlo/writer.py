"""A graph as HLO text: composite ops as their parts, every op from the table of writers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...base.errors import UnsupportedError
from ...base.target import Target
from ...graph_ir.ir.graph import Graph, Op
from ...graph_ir.ops.elementwise import Elementwise
from ...graph_ir.ops.reduce import Reduce
from ...graph_ir.passes.decompose import decompose
from ...graph_ir.schedule.context import LowerContext
from .instruction_writer import Value, Writer
from .writer_elementwise import write_elementwise, write_reduction
from .writer_table import WRITERS


def write_hlo(graph: Graph) -> str:
    """HLO text equivalent to the graph. UnsupportedError naming every op that cannot be written as HLO.

    The result is always a tuple. Names of inputs are kept as far as HLO allows; composite ops are written as their
    parts.
    """
    graph = _decomposed(graph)
    unknown = Counter(
        op.op_name
        for op in _all_ops(graph)
        if op.kind not in ("source", "sink")
        and op.op_name not in WRITERS
        and not isinstance(op, (Elementwise, Reduce))
    )
    if unknown:
        counted = ", ".join(f"{name} ({count}x)" for name, count in sorted(unknown.items()))
        raise UnsupportedError(
            f"graph '{graph.name}': these ops cannot be written as HLO: {counted}"
        )
    return Writer(graph, _write_op).text()


def _write_op(writer: Writer, op: Op) -> Value:
    write = WRITERS.get(op.op_name)
    if write is not None:
        return write(writer, op)
    return write_reduction(writer, op) if isinstance(op, Reduce) else write_elementwise(writer, op)


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


def _all_ops(graph: Graph) -> Iterator[Op]:
    """The ops of a graph and of what its control ops run."""
    for op in graph.ops:
        yield op
        if op.kind == "control":
            for value in op.attrs.values():
                for inner in value if isinstance(value, tuple) else (value,):
                    yield from _all_ops(inner)
