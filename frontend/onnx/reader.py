"""Reads a ModelProto from any kind of source and checks the file itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, NodeProto

from ...base.errors import UnsupportedError, UserError
from ...base.file_errors import unreadable
from ...base.mapped_file import map_file
from ...base.records import dataclass
from .nesting import every_graph
from .weights import split_weights

OLDEST_OPSET = 6
DEFAULT_DOMAINS = ("", "ai.onnx")
_OPSET = "graphc.opset"  # among the metadata of a node


@dataclass(frozen=True)
class ModelSource:
    """A parsed file: `label` names it in messages, `folder` (None for bytes) holds its external data.

    `weights`: the data of large initializers, by name; `model` lacks it.
    """

    model: ModelProto
    label: str
    folder: Path | None = None
    weights: Mapping[str, memoryview] = field(default_factory=dict)


def read_model(source: str | os.PathLike[str] | bytes | ModelProto) -> ModelSource:
    """Parse the model and check that it is decodable, has a graph, and contains nothing unsupported. May raise
    UserError."""
    if isinstance(source, ModelProto):
        parsed = ModelSource(source, "model")
    elif isinstance(source, bytes):
        parsed = _parse(memoryview(source), "model", None)
    else:
        path = Path(source)
        parsed = _parse(read_file(path), f"'{path}'", path.parent)
    _check_envelope(parsed)
    return parsed


def read_proto(path: str | os.PathLike[str]) -> ModelProto:
    """A model to rewrite, with all its weights inside. Raise UserError if it cannot be read."""
    try:
        return onnx.load(os.fspath(path))
    except (OSError, ValueError, DecodeError) as error:
        raise unreadable(path, error, "quantize") from error


def read_file(path: Path) -> memoryview:
    """The bytes of a model file, mapped. Raise UserError if there is no readable file."""
    try:
        return map_file(path) if path.is_file() else memoryview(path.read_bytes())
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise unreadable(path, error) from error


def _parse(data: memoryview, label: str, folder: Path | None) -> ModelSource:
    if not data:
        raise UserError(f"an ONNX model must not be empty, got 0 bytes of {label}")
    structure, weights = split_weights(data)
    try:
        return ModelSource(ModelProto.FromString(bytes(structure)), label, folder, weights)
    except (DecodeError, ValueError) as error:
        raise UserError(
            f"the {len(data)} bytes of {label} cannot be decoded as an ONNX model: "
            "they are of another format, or truncated; copy the file again"
        ) from error


def _check_envelope(source: ModelSource) -> None:
    model, label = source.model, source.label
    if not model.HasField("graph") or not model.ir_version:
        raise UserError(
            f"an ONNX model must have a graph, but {label} has none: it is of another format, or truncated"
        )
    _check_texts(model, label)
    if not model.graph.output:
        raise UserError(f"{label}: a graph must have outputs, but '{model.graph.name}' has none")
    if model.graph.sparse_initializer:
        names = ", ".join(f"'{s.values.name}'" for s in model.graph.sparse_initializer)
        raise UnsupportedError(
            f"{label}: sparse initializers are not supported, it has {names}", "store them dense"
        )
    opset_of(source)


def _check_texts(model: ModelProto, label: str) -> None:
    """Protobuf returns corrupt text as bytes, which no later code expects."""
    texts: list[object] = [o.domain for o in model.opset_import]
    for graph in every_graph(model.graph):
        texts += [graph.name, *(x.name for x in (*graph.initializer, *graph.input, *graph.output))]
        texts += [d.dim_param for x in graph.input for d in x.type.tensor_type.shape.dim]
        texts += [e.value for x in graph.initializer for e in x.external_data]
        for node in graph.node:
            texts += [node.name, node.op_type, node.domain, *node.input, *node.output]
            texts += [attribute.name for attribute in node.attribute]
    broken = next((text for text in texts if not isinstance(text, str)), None)
    if broken is not None:
        raise UserError(f"{label} is corrupt: every name must be UTF-8 text, got {broken!r}")


def opset_of(source: ModelSource) -> int:
    """The version of the default operator set. UnsupportedError outside what is handled."""
    versions = [o.version for o in source.model.opset_import if o.domain in DEFAULT_DOMAINS]
    newest = int(onnx.defs.onnx_opset_version())
    if not versions:
        if all(node.domain not in DEFAULT_DOMAINS for node in source.model.graph.node):
            return newest
        raise UserError(
            f"{source.label} must import the default operator set, but names no version of it"
        )
    return check_opset(versions[0], source.label)


def check_opset(version: int, who: str) -> int:
    """Return the version of the default operator set that `who` uses. UnsupportedError outside what is handled."""
    newest = int(onnx.defs.onnx_opset_version())
    if not OLDEST_OPSET <= version <= newest:
        raise UnsupportedError(
            f"{who}: opsets {OLDEST_OPSET} to {newest} are supported, it uses {version}",
            "export it with one of them, or convert it (`onnx.version_converter`)",
        )
    return int(version)


def set_node_opset(node: NodeProto, opset: int) -> None:
    """Mark a node as written for an opset other than that of the model."""
    set_mark(node, _OPSET, opset)


def node_opset(node: NodeProto, opset: int) -> int:
    """Return the opset that a node of a model of `opset` is written for."""
    return mark_of(node, _OPSET, opset)


def set_mark(node: NodeProto, key: str, number: int) -> None:
    """Keep a number among the metadata of a node."""
    node.metadata_props.add(key=key, value=str(number))


def mark_of(node: NodeProto, key: str, default: int) -> int:
    """Return the number that was last kept under the key."""
    return next((int(x.value) for x in reversed(node.metadata_props) if x.key == key), default)
