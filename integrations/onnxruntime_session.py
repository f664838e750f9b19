"""`graphc.onnxruntime`: sessions with the interface of ONNX Runtime, so that a script changes one import.

    import graphc.onnxruntime as ort
    session = ort.InferenceSession("model.onnx")
    (y,) = session.run(None, {"x": x})

Providers are ignored: graphc compiles the model for this CPU. A model whose dynamic dimensions decide what is compiled
is compiled at its first run for inputs of some shapes, and again for others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TypeProto, ValueInfoProto, helper

from ..base.dims import UndecidedSize
from ..base.dtypes import from_numpy
from ..base.errors import InternalError, UserError
from ..base.file_errors import unreadable
from ..base.version import __version__ as __version__
from ..driver.compiler import compile
from ..frontend.correspondence.scoped import NotKnownError
from ..runtime.executor import CompiledModel
from .onnx_backend import GraphcModel
from .onnxruntime_values import (
    ExecutionMode,
    GraphOptimizationLevel,
    IOBinding,
    OrtValue,
    RunOptions,
    SessionOptions,
    type_text,
)

__all__ = [
    "ExecutionMode",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "get_available_providers",
    "get_device",
    "set_default_logger_severity",
]

_PROVIDER = "CPUExecutionProvider"


class NodeArg(NamedTuple):
    """An input or output of a model: its name, its type, and its extents, which are names where they are dynamic."""

    name: str
    type: str
    shape: list[int | str | None]


class ModelMetadata(NamedTuple):
    """Texts in a model file."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


class InferenceSession:
    """A compiled model with the interface of `onnxruntime.InferenceSession`.

    Args:
        path_or_bytes: An ONNX file, its path or its bytes.
        sess_options: `intra_op_num_threads` and fixed dimensions are used.
        providers: Ignored.
        provider_options: Ignored.
        **ignored: Other arguments, ignored.

    Raises:
        UserError: The model is invalid.
        UnsupportedError: The model uses something that is not supported.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Any = None,
        **ignored: Any,
    ) -> None:
        self._options = sess_options or SessionOptions()
        is_bytes = isinstance(path_or_bytes, bytes | bytearray)
        source: Any = bytes(path_or_bytes) if is_bytes else Path(path_or_bytes)  # type: ignore[arg-type]
        proto = _proto(source)
        graph, self._meta = proto.graph, _metadata(proto)
        weights = {tensor.name for tensor in graph.initializer}
        infos = [info for info in graph.input if info.name not in weights]
        fixed = getattr(self._options, "dimensions", {})
        self._inputs = [_argument(info, fixed) for info in infos]
        self._outputs = [_argument(info, fixed) for info in graph.output]
        threads = getattr(self._options, "intra_op_num_threads", 0) or None
        specs = {info.name: _fixed_spec(info, fixed) for info in infos if _is_fixed(info, fixed)}
        self.model: CompiledModel | None = None
        self._by_shape: GraphcModel | None = None
        try:
            self.model = compile(source, threads=threads, inputs=specs)
            self._name_outputs()
        except (NotKnownError, UndecidedSize):
            whole = onnx.load_from_string(source) if is_bytes else onnx.load(source)
            self._by_shape = GraphcModel(whole, threads=threads)

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Any]:
        """Run once; return the outputs of these names, or all. Inputs are arrays, lists or `OrtValue`."""
        feeds = {
            name: value.numpy() if isinstance(value, OrtValue) else value
            for name, value in input_feed.items()
        }
        names = list(output_names) if output_names else None
        if self.model is not None:
            return self.model.run(names, {name: _array(value) for name, value in feeds.items()})
        assert self._by_shape is not None
        results = dict(
            zip([one.name for one in self._outputs], self._by_shape.run(feeds), strict=True)
        )
        missing = [name for name in names or () if name not in results]
        if missing:
            raise UserError(f"there is no output '{missing[0]}'; outputs are {', '.join(results)}")
        return [results[name] for name in names or results]

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: Any = None,
    ) -> list[OrtValue]:
        """Run once on values; return values."""
        return [OrtValue(array) for array in self.run(output_names, input_dict_ort_values)]

    def io_binding(self) -> IOBinding:
        """Return a binding of inputs and outputs to memory."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Any = None) -> None:
        """Run once on what a binding holds."""
        iobinding.run(self)

    def check_status(self, status: int) -> None:
        """Raise InternalError if a bound call was cut short."""
        if status != 0:
            raise InternalError(f"model '{self._meta.graph_name}': the run ended with {status}")

    def get_inputs(self) -> list[NodeArg]:
        """Return name, type and shape of every input."""
        return self._inputs

    def get_outputs(self) -> list[NodeArg]:
        """Return name, type and shape of every output."""
        return self._outputs

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return nothing: weights are compiled in."""
        return []

    def get_modelmeta(self) -> ModelMetadata:
        """Return texts of the model file."""
        return self._meta

    def get_session_options(self) -> Any:
        """Return the options of the session."""
        return self._options

    def get_providers(self) -> list[str]:
        """Return the CPU."""
        return [_PROVIDER]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return no options."""
        return {_PROVIDER: {}}

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """Ignore providers."""

    def disable_fallback(self) -> None:
        """Do nothing: there is one provider."""

    def enable_fallback(self) -> None:
        """Do nothing, likewise."""

    def end_profiling(self) -> str:
        """Return no file: `graphc profile` profiles a model."""
        return ""

    def _name_outputs(self) -> None:
        """Take the types of outputs from the compiled model, where the file does not have them."""
        assert self.model is not None
        specs = {spec.name: spec for spec in self.model.outputs}
        self._outputs = [
            NodeArg(
                one.name,
                type_text(specs[one.name].dtype),
                [size if isinstance(size, int) else str(size) for size in specs[one.name].shape],
            )
            if one.name in specs and (not one.shape or None in one.shape)
            else one
            for one in self._outputs
        ]


def get_available_providers() -> list[str]:
    """Return the CPU."""
    return [_PROVIDER]


def get_device() -> str:
    """Return `CPU`."""
    return "CPU"


def set_default_logger_severity(severity: int) -> None:
    """Ignore the level: graphc logs by Python's `logging`."""


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


def _argument(info: ValueInfoProto, fixed: Mapping[str, int]) -> NodeArg:
    kind: TypeProto = info.type
    if not kind.HasField("tensor_type"):
        return NodeArg(info.name, kind.WhichOneof("value") or "", [])
    dtype = from_numpy(np.dtype(helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type)))
    shape: list[int | str | None] = [
        dim.dim_value
        if dim.HasField("dim_value")
        else fixed.get(dim.dim_param, dim.dim_param or None)
        for dim in kind.tensor_type.shape.dim
    ]
    return NodeArg(info.name, type_text(dtype), shape)


def _is_fixed(info: ValueInfoProto, fixed: Mapping[str, int]) -> bool:
    return any(dim.dim_param in fixed for dim in info.type.tensor_type.shape.dim if dim.dim_param)


def _fixed_spec(info: ValueInfoProto, fixed: Mapping[str, int]) -> str:
    """The type of an input with some dimensions fixed, as `compile` takes it."""
    kind = info.type.tensor_type
    dtype = from_numpy(np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type)))
    sizes = [
        dim.dim_value
        if dim.HasField("dim_value")
        else fixed.get(dim.dim_param, dim.dim_param or "?")
        for dim in kind.shape.dim
    ]
    return f"{dtype}[{','.join(map(str, sizes))}]"


def _array(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else np.asarray(value)
