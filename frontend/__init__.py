"""Reads model files into graphs: one folder or file per format (`formats`), imported on demand.

May import: graph_ir, base; onnx and lark. Formats do not import each other.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError
from ..base.size_limits import within_limits
from ..graph_ir.ir.graph import Graph
from .formats import FORMATS, HEAD_BYTES, Reading, detect
from .shape_spec import check_inputs, check_ranges, parse_inputs

if TYPE_CHECKING:
    from onnx import ModelProto

ARTIFACT_MAGIC = b"\x89GCM"  # of runtime/container.py

Model = "str | os.PathLike[str] | bytes | ModelProto | Graph"


def load(
    model: str | os.PathLike[str] | bytes | ModelProto | Graph,
    inputs: Mapping[str, str] | None = None,
    constants: Mapping[str, Any] | None = None,
    attrs: Mapping[str, str] | None = None,
) -> Graph:
    """Read a model into a Graph in plain layouts.

    `model`: a path (.onnx, .pt2, .pnnx.param, .param, a GE readable dump, HLO text, a TVM graph JSON), the bytes of
    an ONNX file, a dump, HLO text or a graph JSON, an onnx.ModelProto, a torch.export.ExportedProgram, a
    jax.export.Exported, or a Graph, which is returned unchanged. `inputs`: shapes that are dynamic in the file, such as
    {"x": "f32[8,13]"}. `constants`: arrays that the file omits, by name (GE, HLO and TVM), or the values of inputs,
    which are then none of the graph (ONNX). `attrs`: attributes that a fused TVM kernel does not record, such as
    {"node.axis": "1"}. May raise UserError or UnsupportedError.
    """
    how = Reading(parse_inputs(inputs), constants, attrs)
    # An op may need a limit of a dynamic size, such as as many positions as a table has.
    graph = within_limits(lambda limits: _read(model, replace(how, limits=limits)), how.limits)
    check_ranges(graph, how.inputs)
    graph.make_counts()
    _tell_outputs_apart(graph)
    return graph


def _tell_outputs_apart(graph: Graph) -> None:
    """Number the later ones of several outputs of one name, which ONNX allows: results are requested by name."""
    taken = {str(op.attr("temp.result")) for op in graph.outputs}
    seen: set[str] = set()
    for op in graph.outputs:
        name = str(op.attr("temp.result"))
        if name in seen:
            free = (f"{name}_{number}" for number in count(1))
            name = next(wanted for wanted in free if wanted not in taken)
            op.attrs["temp.result"] = name
            taken.add(name)
        seen.add(name)


def _read(model: Any, how: Reading) -> Graph:
    """The graph of a model given in any of these ways."""
    if isinstance(model, Graph):
        check_inputs(model, how.inputs)
        return model
    if isinstance(model, (bytes, bytearray, memoryview)):
        data = bytes(model)
        return detect("", data[:HEAD_BYTES]).read(data, how)
    if isinstance(model, (str, os.PathLike)):
        return FORMATS[format_of(Path(model))].read(Path(model), how)
    objects = {"ModelProto": "onnx", "ExportedProgram": "torch", "Exported": "hlo"}
    if type(model).__name__ in objects:
        return FORMATS[objects[type(model).__name__]].read(model, how)
    raise UserError(
        "model must be a path, bytes, an onnx.ModelProto, a torch.export.ExportedProgram, a jax.export.Exported or a "
        f"Graph, got {type(model).__name__}"
    )


def format_of(path: Path) -> str:
    """The name of a file's format, a key of `formats.FORMATS`. Raise UserError for a compiled model."""
    _check_kind(path)
    head = _head(path)
    if head.startswith(ARTIFACT_MAGIC):
        raise UserError(f"'{path}' is a compiled model; graphc run and graphc.load take it")
    return detect(path.suffix, head, f"'{path}'").name


def _check_kind(path: Path) -> None:
    """Raise UserError for pipes, devices and sockets: they may never end, and reading their beginning takes it away.

    So may files of the system, whose size is 0.
    """
    try:
        found = path.stat()
    except (OSError, ValueError):
        return  # its reader reports why
    mode = found.st_mode
    if stat.S_ISREG(mode) and not found.st_size:
        raise UserError(f"a model file must not be empty, but '{path}' has no bytes")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        what = kinds.get(stat.S_IFMT(mode), "a device")
        raise UserError(
            f"a model must be a file, '{path}' is {what}; copy its contents into a file"
        )


def _head(path: Path) -> bytes:
    """The first bytes of a file; empty if it cannot be read, in which case its reader reports why."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return b""
