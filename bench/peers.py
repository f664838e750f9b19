"""The other engines, each with its best settings for repeated calls on fixed shapes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.dtypes import BF16
from ..base.errors import UserError
from ..base.records import dataclass

if TYPE_CHECKING:
    from ..runtime.executor import CompiledModel

BFLOAT16 = BF16.numpy
Arrays = Mapping[str, np.ndarray[Any, Any]]


class RefusedModel(UserError):
    """An engine cannot read the model."""


@dataclass(frozen=True)
class Contender:
    """One engine with a model loaded: `run` calls it on fixed inputs; `results` are that run's outputs, in order."""

    name: str
    run: Callable[[], object]
    results: Callable[[], list[np.ndarray[Any, Any]]]


def graphc_contender(model: CompiledModel, inputs: Arrays, name: str = "graphc") -> Contender:
    """graphc through `bind`, on outputs that it allocated itself, as the other engines do: aligned to cache lines."""
    outputs = list(model.run(None, dict(inputs)))
    call = model.bind(dict(inputs), outputs)
    return Contender(name, call, lambda: outputs)


def ort_contender(model: bytes, inputs: Arrays, threads: int) -> Contender:
    """ONNX Runtime with I/O binding, all graph optimisations, spinning threads."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_ortvalue_input(name, _ort_value(array))
    for output in session.get_outputs():
        binding.bind_output(output.name, "cpu")

    def run() -> None:
        session.run_with_iobinding(binding)

    return Contender("ort", run, lambda: [_ort_array(value) for value in binding.get_outputs()])


def _ort_value(array: np.ndarray[Any, Any]) -> Any:
    import onnxruntime as ort
    from onnx import TensorProto

    if array.dtype == BFLOAT16:
        bits = array.view(np.uint16)
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)
    return ort.OrtValue.ortvalue_from_numpy(array)


def _ort_array(value: Any) -> np.ndarray[Any, Any]:
    """The value as an array; NumPy itself has no bfloat16, so ONNX Runtime does not convert it."""
    if value.data_type() != "tensor(bfloat16)":
        return np.array(value.numpy())
    size = value.tensor_size_in_bytes()
    bits = np.frombuffer(ctypes.string_at(value.data_ptr(), size), BFLOAT16)
    return bits.reshape(value.shape())


def exact_results(model: bytes, inputs: Arrays) -> list[np.ndarray[Any, Any]]:
    """What a quantised model means: every node by itself, and integers multiplied without saturation on any CPU."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return [np.asarray(y) for y in session.run(None, dict(inputs))]


def openvino_contender(model: bytes, inputs: Arrays, threads: int) -> Contender:
    """OpenVINO's CPU plugin in f32, latency mode, one stream, input tensors shared."""
    import openvino as ov

    core = ov.Core()
    network = core.read_model(model, b"")
    network.reshape({name: array.shape for name, array in inputs.items()})
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": threads > 1,
    }
    request = core.compile_model(network, "CPU", settings).create_infer_request()
    for name, array in inputs.items():
        if array.dtype == BFLOAT16:
            tensor = ov.Tensor(array.view(np.uint16), array.shape, ov.Type.bf16)
        else:
            tensor = ov.Tensor(array, shared_memory=True)
        request.set_tensor(name, tensor)

    def results() -> list[np.ndarray[Any, Any]]:
        found = [(np.array(tensor.data), tensor.element_type) for tensor in request.output_tensors]
        return [x.view(BFLOAT16) if kind == ov.Type.bf16 else x for x, kind in found]

    return Contender("openvino", request.infer, results)


PEERS: dict[str, Callable[[bytes, Arrays, int], Contender]] = {
    "ort": ort_contender,
    "openvino": openvino_contender,
}


def make_peer(name: str, model: bytes, inputs: Arrays, threads: int) -> Contender:
    """One of `PEERS`, run once. UserError if there is no such peer or it is not installed; RefusedModel, a UserError,
    if it cannot run the model."""
    if name not in PEERS:
        raise UserError(f"peer '{name}' is not known; known are {', '.join(PEERS)}")
    try:
        contender = PEERS[name](model, inputs, threads)
        contender.run()
    except ImportError as error:
        raise UserError(
            f"peer '{name}' is not installed ({error}); pip install 'graphc[bench]'"
        ) from error
    except Exception as error:  # their own kinds, which have no class in common
        raise RefusedModel(f"{name} cannot run the model: {_reason(str(error))}") from error
    return contender


def _reason(message: str) -> str:
    """The line that says why: that of an operator without conversion rule, else the first."""
    lines = message.strip().splitlines() or [""]
    return next((line for line in lines if "No conversion rule" in line), lines[0]).strip(" -")
