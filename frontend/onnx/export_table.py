"""Our ops to the functions that write them; one table per family."""

from __future__ import annotations

from collections.abc import Callable

from ...graph_ir.ir.graph import Op
from . import export_control, export_elementwise, export_movement, export_reduce, export_windows
from .export import Exporter

EXPORTERS: dict[str, Callable[[Exporter, Op], None]] = {
    **export_control.EXPORTERS,
    **export_elementwise.EXPORTERS,
    **export_movement.EXPORTERS,
    **export_reduce.EXPORTERS,
    **export_windows.EXPORTERS,
}
"""Op name to what writes its nodes; inputs, constants and outputs are the exporter's own."""
