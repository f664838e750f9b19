"""A graph through a file of a format, and back; and through one that another engine runs."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ...base.errors import UserError
from ...frontend import load
from ...frontend.formats import FORMATS
from ...frontend.tvm.params import read_params
from ...graph_ir.ir.graph import Array, Graph


def reread(graph: Graph, target: str, folder: Path) -> Graph:
    """The graph written as `target` (a key of `formats.FORMATS`) and read. May raise UserError or UnsupportedError."""
    one = FORMATS[target]
    path = folder / f"m{one.suffix}"
    path.with_suffix(".params").unlink(missing_ok=True)
    files = one.write(graph, path)
    if target != "ge":
        return load(path)
    specs = {op.name: str(op.outputs[0].details) for op in graph.inputs}
    return load(path, specs, read_params(files[1]) if len(files) > 1 else None)


MODEL = "m.onnx"
PEER_SECONDS = 60.0
LIMITS = (
    "NOT_IMPLEMENTED",
    "data type is not supported with",
    "non-string numpy arrays",
    "Node () Op",
    "node. Name:''",
    "zero effective input extent",
    "must be at least 1, got 0",
    "NumDimensions() == 4 was false",
    "size_ % 2 == 1 was false",
    "Integer division by zero",
    "Integer modulo by zero",
    "'Cubic' mode only supports",
    "incompatible function arguments",
    "not defined for empty set",
    "Only N can be zero",
    "Unexpected mode of 3",
)
"""Messages of ONNX Runtime about valid files that it does not run: types that an op lacks or Python cannot hand over,
empty tensors (wrapped borders of them too), also inside of the functions that it expands (whose nodes have no names),
LRN of other than four axes or of an even size, cubic resizing of other than the last two, the largest of no bools,
undefined quotients."""


class RefusedFile(Exception):
    """ONNX Runtime refuses a file that ought to be valid."""


def run_by_onnxruntime(graph: Graph, folder: Path, arrays: Sequence[Array]) -> list[Array]:
    """Return what ONNX Runtime computes of the graph written as ONNX. UnsupportedError, and as `run_file`."""
    if any(op.op_name == "pow" and not op.inputs[0].details.dtype.is_float for op in graph.ops):
        raise UserError("powers of integers must be exact, but ONNX Runtime computes them in f64")
    FORMATS["onnx"].write(graph, folder / MODEL)
    return run_file(folder, [op.name for op in graph.inputs], arrays)


def run_file(folder: Path, names: Sequence[str], arrays: Sequence[Array]) -> list[Array]:
    """Return what ONNX Runtime computes of the model in a folder (`MODEL`), given an array for each name.

    Raise UserError if ONNX Runtime lacks an op or ends its process, as a division of integers by zero does; RefusedFile
    where it calls the file invalid.
    """
    (folder / "inputs").write_bytes(pickle.dumps((list(names), list(arrays))))
    command = [sys.executable, "-m", "graphc.tools.fuzz.peer_worker", str(folder)]
    done = subprocess.run(command, capture_output=True, timeout=PEER_SECONDS, check=False)
    if done.returncode:
        raise UserError(f"the peer must end with 0, got {done.returncode}: {done.stderr[-200:]!r}")
    found = pickle.loads((folder / "results").read_bytes())
    if isinstance(found, str):
        raise (UserError if any(text in found for text in LIMITS) else RefusedFile)(found)
    results: list[Array] = found
    return results
