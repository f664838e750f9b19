"""A runtime of MLServer for compiled models: online inference with the Open Inference Protocol.

    {"name": "mlp", "implementation": "graphc.integrations.mlserver_runtime.GraphcRuntime",
     "max_batch_size": 32, "max_batch_time": 0.005, "parameters": {"uri": "mlp.gcm"}}

is a `model-settings.json`; `graphc serve mlp.gcm` starts the same. MLServer joins concurrent requests along the first
axis, up to `max_batch_size` rows: the model should have a dynamic first dimension then.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from mlserver import MLModel, MLServer, ModelSettings, Settings
from mlserver.codecs import NumpyCodec
from mlserver.errors import InferenceError
from mlserver.rest import server as rest
from mlserver.settings import ModelParameters
from mlserver.types import InferenceRequest, InferenceResponse, MetadataTensor, ResponseOutput

from ..base.dtypes import DType
from ..base.errors import GraphcError, UserError
from ..driver.compiler import load
from ..runtime.metadata import TensorSpec

_WORDS = {"f": "FP", "s": "INT", "u": "UINT"}


class GraphcRuntime(MLModel):  # type: ignore[misc]  # a class of a package without types
    """One compiled model. `parameters.extra` may hold `threads` and `require_signature`, as `graphc.load` has them."""

    async def load(self) -> bool:
        """Load the artifact that `parameters.uri` names."""
        parameters = self.settings.parameters
        extra = (parameters and parameters.extra) or {}
        path = Path(str(parameters and parameters.uri))
        self._model = load(
            path, extra.get("threads"), require_signature=extra.get("require_signature") or ""
        )
        self.inputs = [_described(spec) for spec in self._model.inputs]
        self.outputs = [_described(spec) for spec in self._model.outputs]
        self.settings.inputs = self.settings.inputs or self.inputs
        self.settings.outputs = self.settings.outputs or self.outputs
        return True

    async def unload(self) -> bool:
        """Release the model."""
        self._model.close()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Run the model once, in another thread, as native code does not hold the interpreter."""
        types = {spec.name: spec.dtype.numpy for spec in self._model.inputs}
        arrays = {x.name: _array(x, types.get(x.name)) for x in payload.inputs}
        wanted = [output.name for output in payload.outputs or ()] or None
        try:
            results = await asyncio.to_thread(self._model.run, wanted, arrays)
        except GraphcError as error:
            raise InferenceError(str(error)) from error
        names = wanted or [spec.name for spec in self._model.outputs]
        return InferenceResponse(
            model_name=self.name, model_version=self.version, id=payload.id,
            outputs=[_output(name, array) for name, array in zip(names, results, strict=True)],
        )  # fmt: skip


async def _serve(settings: Settings, model: ModelSettings) -> None:
    await MLServer(settings).start([model])  # which handles signals of the running loop


def _array(value: Any, dtype: np.dtype | None) -> np.ndarray:
    """The array of a request. InferenceError for text and other types than the protocol's numbers."""
    try:
        array: np.ndarray = NumpyCodec.decode_input(value)
    except (ValueError, TypeError, KeyError) as error:
        raise InferenceError(f"input '{value.name}' holds no array ({error})") from error
    # JSON has no types: MLServer reads booleans and narrow integers as wider ones.
    return array.astype(dtype) if dtype is not None and dtype == np.bool_ else array


def _output(name: str, array: np.ndarray) -> ResponseOutput:
    return NumpyCodec.encode_output(name, array)


def _described(spec: TensorSpec) -> MetadataTensor:
    shape = [size if isinstance(size, int) else -1 for size in spec.shape]
    return MetadataTensor(name=spec.name, datatype=_datatype(spec.dtype), shape=shape)


def _datatype(dtype: DType) -> str:
    """Return the name of an element type in the protocol: FP32, INT64, BOOL."""
    text = dtype.name
    if text in ("bool", "bf16"):
        return text.upper()
    return f"{_WORDS.get(text[0], text.upper())}{text[1:]}"


def serve(
    path: str,
    name: str,
    host: str,
    http_port: int,
    grpc_port: int,
    batch: tuple[int, float] = (0, 0.0),
    extra: dict[str, Any] | None = None,
) -> None:
    """Serve a model until the process is told to stop. UserError.

    `batch`: most rows that requests are joined to, and seconds to wait for them; 0 rows for no batching.
    """
    load(path, require_signature=(extra or {}).get("require_signature") or "").close()
    model = ModelSettings(
        name=name, implementation=GraphcRuntime, max_batch_size=batch[0], max_batch_time=batch[1],
        parameters=ModelParameters(uri=str(Path(path).absolute()), extra=extra or {}),
    )  # fmt: skip
    settings = Settings(
        host=host, http_port=http_port, grpc_port=grpc_port, parallel_workers=0, debug=False,
        metrics_endpoint=None,
    )  # fmt: skip
    # MLServer 1.7 stops HTTP and gRPC on a signal, but uvicorn from 0.29 takes the signal, and stops only HTTP.
    rest._NoSignalServer.capture_signals = nullcontext
    try:
        asyncio.run(_serve(settings, model))
    except OSError as error:
        raise UserError(f"serve: cannot listen ({error}); give other ports") from error
