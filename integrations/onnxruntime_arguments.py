"""The description of a model file by a session of ONNX Runtime: names, types, shapes and texts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import GraphProto, TensorProto, TypeProto, ValueInfoProto, helper

from ..base.dtypes import from_numpy
from ..base.errors import UserError
from ..base.file_errors import unreadable
from ..runtime.metadata import TensorSpec
from .onnxruntime_options import SessionOptions
from .onnxruntime_values import type_text

Dims = list[int | str | None]


class NodeArg(NamedTuple):
    """An input or output of a model: its name, its type, and its extents, which are names where they are dynamic."""

    name: str
    type: str
    shape: Dims


class ModelMetadata(NamedTuple):
    """Texts in a model file."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


class ModelArguments:
    """The inputs and outputs of a model with the dimensions that options fix.

    Args:
        source: A path, or the bytes of a file.
        options: Those of the session.

    Raises:
        UserError: The file cannot be read, or holds something else than an ONNX model.
    """

    def __init__(self, source: Path | bytes, options: SessionOptions) -> None:
        graph = (proto := _proto(source)).graph
        self._names, self._denotations = options.dimensions, options.denotations
        weights = {tensor.name for tensor in graph.initializer}
        infos = [info for info in graph.input if info.name not in weights]
        self.meta = _metadata(proto)
        self._maps = _map_keys(graph)
        self.inputs = [self._argument(info) for info in infos]
        self.outputs = [self._argument(info) for info in graph.output]
        self.dtypes = {info.name: _dtype(info.type) for info in infos}
        self.fixed = {info.name: self._spec(info) for info in infos if self._is_fixed(info)}
        """Types of the inputs with fixed dimensions, as `compile` takes them."""

    def name_outputs(self, specs: Sequence[TensorSpec]) -> None:
        """Take the types of outputs from the compiled model, where the file does not have them."""
        found = {spec.name: spec for spec in specs}
        self.outputs = [
            NodeArg(one.name, type_text(found[one.name].dtype), _dims(found[one.name]))
            if one.name in found
            and one.name not in self._maps
            and (not one.shape or None in one.shape)
            else one
            for one in self.outputs
        ]

    def mapped(self, name: str, result: Any) -> Any:
        """Return a result as the model declares it: the rows of a `ZipMap` are dictionaries by class."""
        keys = self._maps.get(name)
        return (
            result
            if keys is None
            else [dict(zip(keys, row, strict=True)) for row in result.tolist()]
        )

    def _argument(self, info: ValueInfoProto) -> NodeArg:
        dtype, dims = _dtype(info.type), info.type.tensor_type.shape.dim
        kind = _type_text(info.type) if dtype is None else type_text(from_numpy(dtype))
        return NodeArg(info.name, kind, [self._extent(dim) for dim in dims])

    def _extent(self, dim: Any) -> int | str | None:
        if dim.HasField("dim_value"):
            return int(dim.dim_value)
        fixed = self._denotations.get(dim.denotation, self._names.get(dim.dim_param))
        return (dim.dim_param or None) if fixed is None else fixed

    def _is_fixed(self, info: ValueInfoProto) -> bool:
        dims = info.type.tensor_type.shape.dim
        return any(
            not dim.HasField("dim_value") and isinstance(self._extent(dim), int) for dim in dims
        )

    def _spec(self, info: ValueInfoProto) -> str:
        sizes = [self._extent(dim) for dim in info.type.tensor_type.shape.dim]
        texts = ("?" if size is None else str(size) for size in sizes)
        return f"{from_numpy(_dtype(info.type))}[{','.join(texts)}]"


def _map_keys(graph: GraphProto) -> dict[str, list[Any]]:
    """The classes of each output that is a sequence of maps."""
    sequences = {info.name for info in graph.output if info.type.HasField("sequence_type")}
    found = {}
    for node in graph.node:
        if node.op_type == "ZipMap" and node.output[0] in sequences:
            given = {one.name: helper.get_attribute_value(one) for one in node.attribute}
            texts = [text.decode() for text in given.get("classlabels_strings", ())]
            found[node.output[0]] = texts or list(given["classlabels_int64s"])
    return found


def _dtype(kind: TypeProto) -> Any:
    """The NumPy type of a tensor's elements; None for all other types."""
    number = kind.tensor_type.elem_type
    if not kind.HasField("tensor_type") or number in (TensorProto.UNDEFINED, TensorProto.STRING):
        return None
    return np.dtype(helper.tensor_dtype_to_np_dtype(number))


def _type_text(kind: TypeProto) -> str:
    """Return a type without a NumPy type as ONNX Runtime spells it: `seq(map(int64,tensor(float)))`."""
    if kind.HasField("sequence_type"):
        return f"seq({_type_text(kind.sequence_type.elem_type)})"
    if kind.HasField("optional_type"):
        return f"optional({_type_text(kind.optional_type.elem_type)})"
    if kind.HasField("map_type"):
        key = TensorProto.DataType.Name(kind.map_type.key_type).lower()
        return f"map({key},{_type_text(kind.map_type.value_type)})"
    dtype = _dtype(kind)
    return "tensor(string)" if dtype is None else type_text(from_numpy(dtype))


def _dims(spec: TensorSpec) -> Dims:
    return [size if isinstance(size, int) else str(size) for size in spec.shape]


def source_of(path_or_bytes: str | os.PathLike[str] | bytes) -> Path | bytes:
    """Return the path or the bytes of a model."""
    if isinstance(path_or_bytes, bytes | bytearray):
        return bytes(path_or_bytes)
    return Path(path_or_bytes)


def _proto(source: Path | bytes) -> onnx.ModelProto:
    """The model without the tensors in other files. May raise UserError."""
    try:
        if isinstance(source, bytes):
            return onnx.load_from_string(source)
        return onnx.load(str(source), load_external_data=False)
    except OSError as error:
        raise unreadable(str(source), error) from error
    except Exception as error:
        label = "the bytes" if isinstance(source, bytes) else source
        raise UserError(f"{label} must be an ONNX model: {error}") from error


def _metadata(proto: onnx.ModelProto) -> ModelMetadata:
    texts = {entry.key: entry.value for entry in proto.metadata_props}
    return ModelMetadata(
        proto.producer_name,
        proto.graph.name,
        proto.domain,
        proto.doc_string,
        proto.graph.doc_string,
        proto.model_version,
        texts,
    )
