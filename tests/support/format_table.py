"""Generated parts of docs/reference: which ops each format can express, found by writing and reading examples."""

from __future__ import annotations

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
            lines.append([f"`{name}`", lookup(name).kind, *cells])
    head, *rows = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|---" * len(lines[0]) + "|", *rows])


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


READ: dict[str, Collection[str]] = {
    "onnx": ONNX,
    "hlo": HLO,
    "pnnx": PNNX,
    "aten": ATEN,
    "tvm": TVM,
    "ge": {*GE, *GE_CONTROL},
}


def operator_list(form: str) -> str:
    """Return the number of operators of a format that are read, and their names there."""
    names = sorted(READ[form])
    text = f"{len(names)} operators: {', '.join(f'`{name}`' for name in names)}."
    return textwrap.fill(text, 116, break_on_hyphens=False, break_long_words=False)
