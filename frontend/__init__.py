"""Model files to graphs: one folder or file per format, found by what is given, imported when it is needed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UserError
from ..graph_ir.graph import Graph
from .shape_spec import InputSpec, parse_inputs

if TYPE_CHECKING:
    from onnx import ModelProto

_PNNX_MAGIC = b"7767517"  # the first line of a .param file

Model = "str | os.PathLike[str] | bytes | ModelProto | Graph"


def load(
    model: str | os.PathLike[str] | bytes | ModelProto | Graph,
    inputs: Mapping[str, str] | None = None,
) -> Graph:
    """Read a model into a Graph in plain layouts.

    `model`: a path (.onnx, .pnnx.param, .param), the bytes of an ONNX file, an onnx.ModelProto, or a Graph, which is
    returned as it is. `inputs`: the shapes the file leaves open, such as {"x": "f32[8,13]"}. UserError,
    UnsupportedError.
    """
    specs = parse_inputs(inputs)
    if isinstance(model, Graph):
        return _checked_graph(model, specs)
    if isinstance(model, (bytes, bytearray, memoryview)):
        data = bytes(model)
        if data.lstrip().startswith(_PNNX_MAGIC):
            raise UserError(
                "a PNNX model must be given as the path of its .param file: its weights are in another"
            )
        return _load_onnx(data, specs)
    if isinstance(model, (str, os.PathLike)):
        return _load_path(Path(model), specs)
    if type(model).__name__ == "ModelProto":
        return _load_onnx(model, specs)
    raise UserError(
        f"model must be a path, bytes, an onnx.ModelProto or a Graph, got {type(model).__name__}"
    )


def _load_path(path: Path, specs: dict[str, InputSpec]) -> Graph:
    if path.suffix == ".param" or _starts_with(path, _PNNX_MAGIC):
        from .pnnx import load_pnnx

        return load_pnnx(path, specs)
    return _load_onnx(path, specs)


def _starts_with(path: Path, magic: bytes) -> bool:
    """Whether a file begins so; one that cannot be read does not, and its reader says why."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(magic)) == magic
    except (OSError, ValueError):
        return False


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
