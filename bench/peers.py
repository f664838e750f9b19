"""The other engines, each with its best settings for repeated calls on fixed shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import UserError

if TYPE_CHECKING:
    from ..runtime.executor import CompiledModel

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
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array))
    for output in session.get_outputs():
        binding.bind_output(output.name, "cpu")

    def run() -> None:
        session.run_with_iobinding(binding)

    return Contender("ort", run, binding.copy_outputs_to_cpu)


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
    try:
        network = core.read_model(model, b"")
    except RuntimeError as error:
        *_, reason = [line for line in str(error).splitlines() if "No conversion rule" in line] or [
            ""
        ]
        raise RefusedModel(f"openvino cannot read the model: {reason.strip(' -')}") from error
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
        request.set_tensor(name, ov.Tensor(array, shared_memory=True))

    def results() -> list[np.ndarray[Any, Any]]:
        return [np.array(tensor.data) for tensor in request.output_tensors]

    return Contender("openvino", request.infer, results)


PEERS: dict[str, Callable[[bytes, Arrays, int], Contender]] = {
    "ort": ort_contender,
    "openvino": openvino_contender,
}


def make_peer(name: str, model: bytes, inputs: Arrays, threads: int) -> Contender:
    """One of `PEERS`. UserError if there is no such peer or it is not installed."""
    if name not in PEERS:
        raise UserError(f"peer '{name}' is not known; known are {', '.join(PEERS)}")
    try:
        return PEERS[name](model, inputs, threads)
    except ImportError as error:
        raise UserError(
            f"peer '{name}' is not installed ({error}); pip install 'graphc[bench]'"
        ) from error
