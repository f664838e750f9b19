"""Writers of all ops as PNNX operators; one table per family."""

from __future__ import annotations

from ...graph_ir.ir.graph import Array, Graph, Op
from ..correspondence.tables import TABLE
from ..correspondence.writing import Write, writers
from . import (
    export_indexing,
    export_linear,
    export_movement,
    export_normalize,
    export_windows,
)
from .export import Exporter, absorb_literals
from .op_table import PAIRS
from .program import Operator


def export_graph(graph: Graph) -> tuple[list[Operator], dict[str, Array]]:
    """Operators and weights by entry name. UnsupportedError lists everything that PNNX cannot express."""
    exporter = Exporter(graph, WRITERS)
    export_linear.absorb_parts(exporter)
    export_windows.absorb_parts(exporter)
    absorb_literals(exporter)
    exporter.write_ops(graph)
    exporter.finish()
    return exporter.operators, exporter.weights


def _input(e: Exporter, op: Op) -> str:
    return e.append("pnnx.Input", op.name, [], op.outputs[0].details)


def _constant(e: Exporter, op: Op) -> str:
    value = op.attr("value")
    return e.append("pnnx.Attribute", op.name, [], op.outputs[0].details, weights={"data": value})


def _output(e: Exporter, op: Op) -> str:
    name = op.attr("temp.result")
    return e.append("pnnx.Output", name, [e.operand(op.inputs[0])], None)


WRITERS: dict[str, Write] = {
    "input": _input,
    "constant": _constant,
    "output": _output,
    **writers(TABLE, "pnnx", PAIRS),
    **export_linear.EXPORTERS,
    **export_normalize.EXPORTERS,
    **export_movement.EXPORTERS,
    **export_indexing.EXPORTERS,
    **export_windows.EXPORTERS,
}
"""Graph op to its writer; what is not here has no form in PNNX."""
