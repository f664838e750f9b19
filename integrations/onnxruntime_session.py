"""`graphc.onnxruntime`: sessions with the interface of ONNX Runtime, so that a script changes one import.

    import graphc.onnxruntime as ort
    session = ort.InferenceSession("model.onnx")
    (y,) = session.run(None, {"x": x})

Providers are ignored: graphc compiles the model for this CPU. A model whose dynamic dimensions decide what is compiled
is compiled at its first run for inputs of some shapes, and again for others.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from ..base.dims import UndecidedSize
from ..base.errors import GraphcError, InternalError, UserError
from ..base.version import __version__ as __version__
from ..driver.compiler import compile
from ..frontend.correspondence.scoped import NotKnownError
from ..runtime.executor import CompiledModel
from .onnx_backend import GraphcModel
from .onnxruntime_arguments import ModelArguments, ModelMetadata, NodeArg, source_of
from .onnxruntime_options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    InvalidArgument,
    RunOptions,
    SessionOptions,
    check_not_ended,
)
from .onnxruntime_profile import RunTimes
from .onnxruntime_values import IOBinding, OrtValue

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "InvalidArgument",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "get_version_string",
    "preload_dlls",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]

_PROVIDER = "CPUExecutionProvider"


class InferenceSession:
    """A compiled model with the interface of `onnxruntime.InferenceSession`.

    Args:
        path_or_bytes: An ONNX file, its path or its bytes.
        sess_options: `intra_op_num_threads`, fixed dimensions and `enable_profiling` are used.
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
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Any = None,
        **ignored: Any,
    ) -> None:
        self._options = SessionOptions() if sess_options is None else sess_options
        source: Any = source_of(path_or_bytes)
        self._arguments = ModelArguments(source, self._options)
        threads = self._options.intra_op_num_threads or None
        self.model: CompiledModel | None = None
        self._by_shape: GraphcModel | None = None
        try:
            self.model = compile(source, threads=threads, inputs=self._arguments.fixed)
            self._arguments.name_outputs(self.model.outputs)
        except (NotKnownError, UndecidedSize):
            is_bytes = isinstance(source, bytes)
            whole = onnx.load_from_string(source) if is_bytes else onnx.load(source)
            self._by_shape = GraphcModel(whole, threads=threads)
        self._times = RunTimes()
        self._is_profiling = self._options.enable_profiling

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Run once; return the outputs of these names, or all. Inputs are arrays, lists or `OrtValue`.

        Raises:
            InvalidArgument: A name, a type or a shape is wrong, or an input is missing.
        """
        if isinstance(output_names, str):
            raise InvalidArgument(f"output_names must be a list, got '{output_names}'")
        self._check_given(input_feed)
        check_not_ended(run_options)
        try:
            return self.timed(lambda: self._run(list(output_names or ()), input_feed))
        except UserError as error:
            raise InvalidArgument(str(error)) from error

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], object],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run once in another thread, which then calls `callback(results, user_data, error)`.

        `error` is empty, or the reason why there are no results.
        """
        self._check_given(input_feed)

        def work() -> None:
            try:
                results, reason = self.run(output_names, input_feed, run_options), ""
            except GraphcError as error:
                results, reason = [], str(error)
            callback(results, user_data, reason)

        threading.Thread(target=work).start()

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Run once on values; return values."""
        return [
            OrtValue(array) for array in self.run(output_names, input_dict_ort_values, run_options)
        ]

    def io_binding(self) -> IOBinding:
        """Return a binding of inputs and outputs to memory."""
        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: RunOptions | None = None
    ) -> None:
        """Run once on what a binding of this session holds."""
        if iobinding.session is not self:
            raise InvalidArgument("a binding must be used with the session that made it")
        check_not_ended(run_options)
        try:
            iobinding.run()
        except UserError as error:
            raise InvalidArgument(str(error)) from error

    def timed(self, action: Callable[[], Any]) -> Any:
        """Return what a run returns; keep its time while the session is profiled."""
        return self._times.timed(action) if self._is_profiling else action()

    def check_status(self, status: int) -> None:
        """Raise InternalError if a bound call was cut short."""
        if status != 0:
            name = self._arguments.meta.graph_name
            raise InternalError(f"model '{name}': the run ended with {status}")

    def get_inputs(self) -> list[NodeArg]:
        """Return name, type and shape of every input."""
        return self._arguments.inputs

    def get_outputs(self) -> list[NodeArg]:
        """Return name, type and shape of every output."""
        return self._arguments.outputs

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return nothing: weights are compiled in."""
        return []

    def get_modelmeta(self) -> ModelMetadata:
        """Return texts of the model file."""
        return self._arguments.meta

    def get_session_options(self) -> SessionOptions:
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
        """Write the times of the runs; return the name of the file, empty where the session is not profiled.

        `graphc profile` profiles the kernels of a model.
        """
        if not self._is_profiling:
            return ""
        self._is_profiling = False
        return self._times.write(self._options.profile_file_prefix)

    def get_profiling_start_time_ns(self) -> int:
        """Return when the session was made, in nanoseconds of `time.monotonic_ns`."""
        return self._times.start

    def _check_given(self, names: Iterable[str]) -> None:
        given = list(names)
        missing = [one.name for one in self._arguments.inputs if one.name not in given]
        if missing:
            raise InvalidArgument(
                f"required inputs ({', '.join(missing)}) are missing from the input feed ({', '.join(given)})"
            )

    def _run(self, names: list[str], given: Mapping[str, Any]) -> list[Any]:
        dtypes = self._arguments.dtypes
        feeds = {name: _array(value, dtypes.get(name)) for name, value in given.items()}
        chosen = names or [one.name for one in self._arguments.outputs]
        if self.model is not None:
            results = self.model.run(names or None, feeds)
        else:
            results = self._run_by_shape(chosen, feeds)
        return [self._arguments.mapped(*pair) for pair in zip(chosen, results, strict=True)]

    def _run_by_shape(self, names: list[str], feeds: Mapping[str, Any]) -> list[Any]:
        assert self._by_shape is not None
        all_names = [one.name for one in self._arguments.outputs]
        results = dict(zip(all_names, self._by_shape.run(feeds), strict=True))
        unknown = [name for name in names if name not in results]
        if unknown:
            raise UserError(f"there is no output '{unknown[0]}'; outputs are {', '.join(results)}")
        return [results[name] for name in names]


def get_available_providers() -> list[str]:
    """Return the CPU."""
    return [_PROVIDER]


get_all_providers = get_available_providers


def get_device() -> str:
    """Return `CPU`."""
    return "CPU"


def get_version_string() -> str:
    """Return the version of graphc."""
    return __version__


def _ignore(*_: Any, **__: Any) -> None:
    """Do nothing: graphc logs by Python's `logging`, has no telemetry, and generates no random numbers."""


set_default_logger_severity = set_default_logger_verbosity = set_seed = _ignore
disable_telemetry_events = enable_telemetry_events = preload_dlls = _ignore


def _array(value: Any, dtype: Any) -> Any:
    """The array of a value; numbers and lists of them become elements of a type that holds them."""
    if isinstance(value, OrtValue):
        return value.numpy()
    if hasattr(value, "dtype") or dtype is None:
        return value
    array = np.asarray(value)
    return array.astype(dtype) if np.can_cast(array.dtype, dtype, "same_kind") else array
