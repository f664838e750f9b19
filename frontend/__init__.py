"""Reads model files into graphs: one folder or file per format, detected from the input and imported on demand.

May import: graph_ir, base; onnx and lark. Formats do not import each other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError
from ..graph_ir.ir.graph import Graph
from .shape_spec import InputSpec, parse_inputs

if TYPE_CHECKING:
    from onnx import ModelProto

_HEAD_BYTES = 1 << 16
_GE_BEGIN = re.compile(
    rb'(?:\A(?:\xef\xbb\xbf)?|\n(?:```|~~~)[^\n]*\n)\s*graph\("'
)  # the file, or a Markdown fence
_HLO_BEGIN = re.compile(
    rb"\A(?:\xef\xbb\xbf)?(?:\s++|/\*(?:[^*]++|\*(?!/))*+\*/|//[^\n]*+\n)*+HloModule\b"
)  # after comments
_JSON_BEGIN = re.compile(rb"\A(?:\xef\xbb\xbf)?(?:\s++|(?:#|//)[^\n]*+\n)*+\{")  # after comments
_PNNX_MAGIC = b"7767517"  # the first line of a .param file
_ARTIFACT_MAGIC = b"\x89GCM"  # of runtime/container.py

Model = "str | os.PathLike[str] | bytes | ModelProto | Graph"


def load(
    model: str | os.PathLike[str] | bytes | ModelProto | Graph,
    inputs: Mapping[str, str] | None = None,
    constants: Mapping[str, Any] | None = None,
    attrs: Mapping[str, str] | None = None,
) -> Graph:
    """Read a model into a Graph in plain layouts.

    `model`: a path (.onnx, .pnnx.param, .param, a GE readable dump, HLO text, a TVM graph JSON), the bytes of an ONNX
    file, a dump, HLO text or a graph JSON, an onnx.ModelProto, or a Graph, which is returned as it is. `inputs`: shapes
    that the file leaves open, such as {"x": "f32[8,13]"}. `constants`: arrays that the file omits, by name (GE, HLO and
    TVM). `attrs`: attributes that a fused TVM kernel does not record, such as {"node.axis": "1"}. UserError,
    UnsupportedError.
    """
    graph = _read(model, parse_inputs(inputs), constants, attrs)
    _tell_outputs_apart(graph)
    return graph


def _tell_outputs_apart(graph: Graph) -> None:
    """Number the later ones of several outputs of one name, which ONNX allows: results are asked for by name."""
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


def _read(
    model: str | os.PathLike[str] | bytes | ModelProto | Graph,
    specs: dict[str, InputSpec],
    constants: Mapping[str, Any] | None,
    attrs: Mapping[str, str] | None,
) -> Graph:
    """The graph of a model given in any of these ways."""
    if isinstance(model, Graph):
        return _checked_graph(model, specs)
    if isinstance(model, (bytes, bytearray, memoryview)):
        data = bytes(model)
        if data.lstrip().startswith(_PNNX_MAGIC):
            raise UserError(
                "a PNNX model must be given as the path of its .param file: its weights are in another"
            )
        return _load_as(_format_of_text(data[:_HEAD_BYTES]), data, specs, constants, attrs)
    if isinstance(model, (str, os.PathLike)):
        return _load_as(format_of(Path(model)), Path(model), specs, constants, attrs)
    if type(model).__name__ == "ModelProto":
        return _load_onnx(model, specs)
    raise UserError(
        f"model must be a path, bytes, an onnx.ModelProto or a Graph, got {type(model).__name__}"
    )


def format_of(path: Path) -> str:
    """The format of a file, by its name and its first bytes: graph, pnnx, ge, hlo, tvm, else onnx."""
    if path.suffix == ".graph":  # graphc's own text, as in reproducers
        return "graph"
    head = _head(path)
    if head.startswith(_ARTIFACT_MAGIC):
        raise UserError(f"'{path}' is a compiled model; graphc run and graphc.load take it")
    if path.suffix == ".param" or head.startswith(_PNNX_MAGIC):
        return "pnnx"
    return "hlo" if path.suffix == ".hlo" and not _GE_BEGIN.search(head) else _format_of_text(head)


def _format_of_text(head: bytes) -> str:
    """The format that begins like this; ONNX by default."""
    if _GE_BEGIN.search(head):
        return "ge"
    if _HLO_BEGIN.match(head):
        return "hlo"
    return "tvm" if _JSON_BEGIN.match(head) else "onnx"


def _load_text(path: Path) -> Graph:
    from ..graph_ir.text.parser import parse_graph

    try:
        return parse_graph(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read '{path}' ({error})") from error


def _head(path: Path) -> bytes:
    """The first bytes of a file; empty if it cannot be read, in which case its reader reports why."""
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return b""


def _load_as(
    kind: str,
    source: Path | bytes,
    specs: dict[str, InputSpec],
    constants: Mapping[str, Any] | None,
    attrs: Mapping[str, str] | None,
) -> Graph:
    if kind == "graph" and isinstance(source, Path):
        return _checked_graph(_load_text(source), specs)
    if kind == "pnnx" and isinstance(source, Path):
        from .pnnx import load_pnnx

        return load_pnnx(source, specs)
    if kind == "ge":
        from .ge import load_ge

        return load_ge(source, specs, constants)
    if kind == "hlo":
        from .hlo import load_hlo

        return load_hlo(source, specs, constants)
    if kind == "tvm":
        from .tvm.importer import load_tvm

        return load_tvm(source, specs, constants, attrs)
    return _load_onnx(source, specs)


def _load_onnx(model: Path | bytes | ModelProto, specs: dict[str, InputSpec]) -> Graph:
    from .onnx import load_onnx

    return load_onnx(model, specs)


def _checked_graph(graph: Graph, specs: dict[str, InputSpec]) -> Graph:
    details = {op.name: op.outputs[0].details for op in graph.inputs}
    for name, spec in specs.items():
        if name not in details:
            known = ", ".join(f"'{n}'" for n in details) or "none"
            raise UserError(f"there is no input '{name}'; the graph's inputs are {known}")
        if (spec.dtype, spec.dims) != (details[name].dtype, details[name].plain_dims):
            raise UserError(f"input '{name}' is {details[name]} in the graph, got {spec}")
    return graph
