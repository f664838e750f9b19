"""The other engines, each with its best settings for repeated calls, on fixed shapes or on any."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..base.dtypes import BF16
from ..base.errors import UserError
from ..base.records import dataclass
from .operators import NUMPY, read_program

if TYPE_CHECKING:
    from ..runtime.executor import CompiledModel

BFLOAT16 = BF16.numpy
Arrays = Mapping[str, np.ndarray[Any, Any]]
Shapes = Mapping[str, tuple[int, ...]]
_T = TypeVar("_T")


class RefusedModel(UserError):
    """An engine cannot read the model."""


@dataclass(frozen=True)
class Contender:
    """One engine with a model loaded: `run` calls it on fixed inputs; `results` are that run's outputs, in order."""

    name: str
    run: Callable[[], object]
    results: Callable[[], list[np.ndarray[Any, Any]]]
    precision: str = ""
    """The compute dtype of f32 matmuls as the engine reports it; "" for that of the model."""


Session = Callable[[Arrays], Contender]
"""A loaded model: gives the contender that runs it on certain inputs."""


def graphc_contender(model: CompiledModel, inputs: Arrays, name: str = "graphc") -> Contender:
    """graphc through `bind`, run once, on outputs that it allocated itself, as the other engines do: aligned to
    cache lines."""
    outputs = model.allocate(inputs)
    call = model.bind(inputs, outputs)
    call()
    if model.artifact.metadata.counts:  # the arrays hold more than was filled
        return Contender(name, call, lambda: model.run(None, inputs))
    return Contender(name, call, lambda: outputs)


def ort_session(
    model: bytes, threads: int, shapes: Shapes | None, label: str = "ort", is_exact: bool = False
) -> Session:
    """ONNX Runtime with I/O binding, all graph optimizations, spinning threads; it reads `shapes` from the model.

    `is_exact`: without saturating byte matmuls, which it uses on CPUs without VNNI.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    options.add_session_config_entry("session.x64quantprecision", str(int(is_exact)))
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def contender(inputs: Arrays) -> Contender:
        binding = session.io_binding()
        for name, array in inputs.items():
            binding.bind_ortvalue_input(name, _ort_value(array))
        for output in session.get_outputs():
            binding.bind_output(output.name, "cpu")

        def run() -> None:
            session.run_with_iobinding(binding)

        return Contender(label, run, lambda: [_ort_array(x) for x in binding.get_outputs()])

    return contender


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


def openvino_session(
    model: bytes, threads: int, shapes: Shapes | None, precision: str = "f32"
) -> Session:
    """OpenVINO's CPU plugin, latency mode, one stream, input tensors shared; reshaped to `shapes`, if any."""
    import openvino as ov

    core = ov.Core()
    network = core.read_model(model, b"")
    if shapes is not None:
        network.reshape(dict(shapes))
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": precision,
        "ENABLE_CPU_PINNING": threads > 1,
    }
    compiled = core.compile_model(network, "CPU", settings)
    used = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
    request = compiled.create_infer_request()
    given: list[object] = [None]  # the tensors that the request has: it serves all contenders

    def contender(inputs: Arrays) -> Contender:
        tensors = {name: _ov_tensor(array) for name, array in inputs.items()}

        def run() -> None:
            if given[0] is not tensors:
                given[0] = tensors
                for name, tensor in tensors.items():
                    request.set_tensor(name, tensor)
            request.infer()

        return Contender(
            "openvino", run, lambda: list(map(_ov_array, request.output_tensors)), used
        )

    return contender


def _ov_tensor(array: np.ndarray[Any, Any]) -> Any:
    import openvino as ov

    if array.dtype == BFLOAT16:
        return ov.Tensor(array.view(np.uint16), array.shape, ov.Type.bf16)
    return ov.Tensor(array, shared_memory=True)


def _ov_array(tensor: Any) -> np.ndarray[Any, Any]:
    import openvino as ov

    found = np.array(tensor.data)
    return found.view(BFLOAT16) if tensor.element_type == ov.Type.bf16 else found


def numpy_session(model: bytes, threads: int, shapes: Shapes | None) -> Session:
    """NumPy's functions; its BLAS runs on as many threads as it was started with, whatever `threads` says."""
    program = read_program(model, NUMPY)

    def contender(inputs: Arrays) -> Contender:
        operands = [inputs[name] for name in program.inputs]

        def run() -> Any:
            return program.run(program.constants, operands)

        return Contender("numpy", run, lambda: [*map(np.asarray, run())])

    return contender


def torch_session(
    model: bytes, threads: int, shapes: Shapes | None, label: str = "torch", compiled: bool = False
) -> Session:
    """PyTorch's functions without gradients, or what its own compiler makes of them."""
    from ..frontend.torch.tensors import shared_array, shared_tensor
    from .torch_operators import torch_call

    call = torch_call(model, threads, compiled)

    def contender(inputs: Arrays) -> Contender:
        run = partial(call, *map(shared_tensor, inputs.values()))
        return Contender(label, run, lambda: [shared_array(y.contiguous()) for y in run()])

    return contender


PEERS: dict[str, Callable[[bytes, int, Shapes | None], Session]] = {
    "ort": ort_session,
    "ort-exact": partial(ort_session, label="ort-exact", is_exact=True),
    "openvino": openvino_session,
    "torch": torch_session,
    "inductor": partial(torch_session, label="inductor", compiled=True),
    "numpy": numpy_session,
}


IN_BF16: dict[str, Callable[[bytes, int, Shapes | None], Session]] = {
    "openvino": partial(openvino_session, precision="bf16")
}
"""Peers that run f32 models in bf16; ONNX Runtime does on other CPUs only."""


PACKAGES = {
    "eager": "torch", "inductor": "torch", "autotune": "torch", "ort": "onnxruntime", "ort-exact": "onnxruntime",
    "openvino": "openvino", "torch": "torch", "numpy": "numpy",
}  # fmt: skip
"""The package that an engine is."""


def import_peers(names: Iterable[str]) -> None:
    """Import the packages of engines, as far as they are installed, before the process is pinned.

    ONNX Runtime 1.32 does not use AMX in a process that was pinned before the import: 4.4 ms instead of 2.0 for
    1024x1024x1024 in int8.
    """
    for package in {PACKAGES[name] for name in names if name in PACKAGES}:
        with suppress(ImportError):  # `load_peer` says what is missing
            import_module(package)


def make_peer(
    name: str, model: bytes, inputs: Arrays, threads: int, in_bf16: bool = False
) -> Contender:
    """One of `PEERS` for inputs of these shapes only, run once. Errors as those of `load_peer`."""
    shapes = {name: array.shape for name, array in inputs.items()}
    return load_peer(name, model, threads, shapes, in_bf16)(inputs)


def load_peer(
    name: str, model: bytes, threads: int, shapes: Shapes | None = None, in_bf16: bool = False
) -> Session:
    """One of `PEERS`, for inputs of all shapes of dynamic dimensions, or of `shapes` only; in bf16 if it can.

    Raise UserError if there is no such peer or it is not installed; RefusedModel, a UserError, if it cannot read the
    model or run it on some inputs (then from the session, which runs a contender once).
    """
    if name not in PEERS:
        raise UserError(f"peer '{name}' is not known; known are {', '.join(PEERS)}")
    load = (IN_BF16 if in_bf16 and name in IN_BF16 else PEERS)[name]
    session = _attempt(name, lambda: load(model, threads, shapes))

    def contender(inputs: Arrays) -> Contender:
        found = session(inputs)
        found.run()
        return found

    return lambda inputs: _attempt(name, lambda: contender(inputs))


def gathered(
    names: Iterable[str], make: Callable[[str], _T]
) -> tuple[dict[str, _T], dict[str, str]]:
    """Return what `make` gives for each peer, and why others, which raise RefusedModel, give nothing."""
    found, refused = dict[str, _T](), dict[str, str]()
    for name in names:
        try:
            found[name] = make(name)
        except RefusedModel as refusal:
            refused[name] = str(refusal)
    return found, refused


def package_of(who: str, module: str, package: str) -> Any:
    """Import a module that is not installed with graphc. Raise UserError naming the package that has it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(
            f"{who} needs the package '{package}' ({error}); pip install {package}"
        ) from error


def _attempt(name: str, step: Callable[[], _T]) -> _T:
    """Return the result of a step of the peer `name`, its errors raised as this project's."""
    try:
        return step()
    except ImportError as error:
        raise UserError(
            f"peer '{name}' is not installed ({error}); pip install 'graphc[bench]'"
        ) from error
    except Exception as error:  # their own kinds, which have no class in common
        raise RefusedModel(f"{name} cannot run the model: {reason(str(error))}") from error


def reason(message: str) -> str:
    """The line that says why: that of an operator without conversion rule, else the first."""
    lines = message.strip().splitlines() or [""]
    return next((line for line in lines if "No conversion rule" in line), lines[0]).strip(" -")


def results_as_written(model: bytes, inputs: Arrays) -> list[Any] | None:
    """Return ONNX Runtime's results without optimizations, some of which break valid models; None if it has none."""
    try:
        return unoptimized_results(model, inputs)
    except Exception:  # noqa: BLE001 - of ONNX Runtime's own kinds; the caller reports the first error
        return None


def unoptimized_results(
    model: bytes, inputs: Arrays, wanted: Sequence[str] | None = None
) -> list[np.ndarray[Any, Any]]:
    """Return ONNX Runtime's results, those `wanted` or all, where it runs a model one node at a time, as written."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return [np.asarray(y) for y in session.run(wanted, dict(inputs))]
