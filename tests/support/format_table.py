"""What docs/formats.md holds: which ops each format has a form for, found by writing and reading an example of each."""

from __future__ import annotations

import re
import tempfile
import textwrap
import warnings
from collections.abc import Collection
from pathlib import Path

import numpy as np

from graphc.base.errors import GraphcError, UnsupportedError
from graphc.frontend import load
from graphc.frontend.formats import FORMATS
from graphc.frontend.ge.control import HANDLERS as GE_CONTROL
from graphc.frontend.ge.op_table import HANDLERS as GE
from graphc.frontend.hlo.op_table import HANDLERS as HLO
from graphc.frontend.onnx.op_table import HANDLERS as ONNX
from graphc.frontend.pnnx.op_table import HANDLERS as PNNX
from graphc.frontend.torch.op_table import HANDLERS as ATEN
from graphc.frontend.tvm.op_table import OPERATORS as TVM
from graphc.frontend.tvm.params import read_params
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.registry import lookup
from support.every_op import OURS, make

NAMES = ("onnx", "hlo", "pnnx", "tvm", "ge")


def op_table() -> str:
    """A line per op: its kind, which says how it runs, and what each format does with an example of it."""
    lines = [["op", "kind", *NAMES]]
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
    ):
        warnings.simplefilter("ignore")
        for name in OURS:
            graph = Graph("example")
            make(graph, name)
            cells = [_cell(graph, target, Path(folder)) for target in NAMES]
            lines.append([name, lookup(name).kind, *cells])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cell(graph: Graph, target: str, folder: Path) -> str:
    """`both`: written and read back to the same types; `write`: written only; `-`: the format has no form for it."""
    path = folder / f"m{FORMATS[target].suffix}"
    try:
        files = FORMATS[target].write(graph, path)
    except UnsupportedError:
        return "-"
    specs = {op.name: str(op.outputs[0].details) for op in graph.inputs}
    constants = read_params(files[1]) if target == "ge" and len(files) > 1 else None
    try:
        again = load(path, specs if target == "ge" else None, constants)
    except GraphcError:
        return "write"
    types = [[op.inputs[0].details for op in g.outputs] for g in (graph, again)]
    return "both" if types[0] == types[1] else "write"


def operator_lists() -> str:
    """The operators of each format that are read, by their names there."""
    tables: dict[str, Collection[str]] = {
        "ONNX operators": ONNX,
        "HLO opcodes": HLO,
        "PNNX operators": PNNX,
        "ATen operators of PyTorch": ATEN,
        "TVM operators, in kernel names and in uncompiled graphs": TVM,
        "GE node types": {*GE, *GE_CONTROL},
    }
    parts = []
    for title, names in tables.items():
        text = re.sub(r"-", "\u2011", ", ".join(sorted(names)))  # not to be broken at a hyphen
        lines = textwrap.wrap(text, 110, initial_indent="  ", subsequent_indent="  ")
        parts.append("\n".join([f"{title} ({len(names)})", *lines]).replace("\u2011", "-"))
    return "\n\n".join(parts)
