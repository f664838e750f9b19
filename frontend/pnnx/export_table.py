"""How each op of a graph is written as PNNX operators; one table per family."""

from __future__ import annotations

import numpy as np

from ...graph_ir.ir.graph import Op
from . import (
    export_elementwise,
    export_indexing,
    export_linear,
    export_movement,
    export_reduce,
    export_windows,
)
from .export import Exporter
from .export_forms import ExportFunction


def absorb_parts(exporter: Exporter) -> None:
    """Mark the ops that another one's operator stands for."""
    export_linear.absorb_parts(exporter)
    export_windows.absorb_parts(exporter)


def _input(e: Exporter, op: Op) -> str:
    return e.emit("pnnx.Input", op.name, [], op.outputs[0].details)


def _constant(e: Exporter, op: Op) -> str:
    value = np.asarray(op.attrs["value"])
    return e.emit("pnnx.Attribute", op.name, [], op.outputs[0].details, weights={"data": value})


def _output(e: Exporter, op: Op) -> str:
    name = str(op.attrs.get("temp.result", op.name))
    return e.emit("pnnx.Output", name, [e.operand(op.inputs[0])], None)


EXPORTERS: dict[str, ExportFunction] = {
    "input": _input,
    "constant": _constant,
    "output": _output,
    **export_linear.EXPORTERS,
    **export_elementwise.EXPORTERS,
    **export_reduce.EXPORTERS,
    **export_movement.EXPORTERS,
    **export_indexing.EXPORTERS,
    **export_windows.EXPORTERS,
}
"""Graph op to its writer; what is not here has no form in PNNX."""
