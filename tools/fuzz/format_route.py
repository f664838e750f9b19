"""A graph through a file of a format, and back."""

from __future__ import annotations

from pathlib import Path

from ...frontend import load
from ...frontend.formats import FORMATS
from ...frontend.tvm.params import read_params
from ...graph_ir.ir.graph import Graph


def reread(graph: Graph, target: str, folder: Path) -> Graph:
    """The graph written as `target` (a key of `formats.FORMATS`) and read. UserError, UnsupportedError."""
    one = FORMATS[target]
    path = folder / f"m{one.suffix}"
    path.with_suffix(".params").unlink(missing_ok=True)
    files = one.write(graph, path)
    if target != "ge":
        return load(path)
    specs = {op.name: str(op.outputs[0].details) for op in graph.inputs}
    return load(path, specs, read_params(files[1]) if len(files) > 1 else None)
