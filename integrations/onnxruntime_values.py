"""Values and bindings in the form of ONNX Runtime, on NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import helper

from ..base.dtypes import DType, from_numpy
from ..runtime.dlpack import shared_array
from .onnxruntime_options import InvalidArgument

Array = np.ndarray[Any, Any]

_TYPES = {
    "f32": "float", "f64": "double", "f16": "float16", "bf16": "bfloat16", "bool": "bool", "string": "string",
    **{f"s{bits}": f"int{bits}" for bits in (4, 8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (4, 8, 16, 32, 64)},
    "f8e4m3fn": "float8e4m3fn", "f8e5m2": "float8e5m2",
}  # fmt: skip


def type_text(dtype: DType) -> str:
    """Return the type of a tensor as ONNX Runtime spells it: `tensor(float)`."""
    return f"tensor({_TYPES.get(dtype.name, dtype.name)})"


def _dtype(element_type: Any) -> np.dtype[Any]:
    """The NumPy type of an element type: NumPy's own, or a number of ONNX."""
    if isinstance(element_type, int):
        return np.dtype(helper.tensor_dtype_to_np_dtype(element_type))
    return np.dtype(element_type)


def _at(address: int, element_type: Any, shape: Sequence[int]) -> Array:
    """The array at an address, which must stay valid."""
    dtype = _dtype(element_type)
    size = int(np.prod(shape)) * dtype.itemsize
    if size and (not address or address % dtype.alignment):
        raise InvalidArgument(
            f"IO binding: the address of {dtype} must be a multiple of {dtype.alignment} and not 0, got {address}"
        )
    memory = memoryview((ctypes.c_uint8 * size).from_address(address))
    return np.ndarray(tuple(shape), dtype, memory)


class OrtValue:
    """A tensor in memory of the CPU."""

    def __init__(self, array: Array) -> None:
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(
        array: Array, device_type: str = "cpu", device_id: int = 0, **_: Any
    ) -> OrtValue:
        """Return a value that holds an array, without a copy where that is dense."""
        _check_device(device_type)
        return OrtValue(np.ascontiguousarray(array).reshape(np.shape(array)))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        **_: Any,
    ) -> OrtValue:
        """Return a value of a shape, whose elements are not defined yet."""
        _check_device(device_type)
        return OrtValue(np.empty(tuple(shape), _dtype(element_type)))

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(data: Array, onnx_element_type: int) -> OrtValue:
        """Return a value on the memory of an array, whose elements are of another type of the same size."""
        return OrtValue(data.view(_dtype(onnx_element_type)))

    @staticmethod
    def from_dlpack(data: Any) -> OrtValue:
        """Return a value on the memory of a tensor of another library."""
        array = shared_array(data)
        if array is None:
            raise InvalidArgument(
                f"a value must be made of a tensor with DLPack in memory of the CPU, got {type(data).__name__}"
            )
        return OrtValue(array)

    def numpy(self) -> Array:
        """Return the array itself."""
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._array, dtype, copy=copy)

    def shape(self) -> list[int]:
        """Return the extents of the axes."""
        return list(self._array.shape)

    def data_type(self) -> str:
        """Return the type: `tensor(float)`."""
        return type_text(from_numpy(self._array.dtype))

    def element_type(self) -> int:
        """Return the number of the element type in ONNX."""
        return int(helper.np_dtype_to_tensor_dtype(self._array.dtype))

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return int(self._array.ctypes.data)

    def tensor_size_in_bytes(self) -> int:
        """Return the bytes of all elements."""
        return int(self._array.nbytes)

    def device_name(self) -> str:
        """Return `cpu`."""
        return "cpu"

    def has_value(self) -> bool:
        """Return True."""
        return True

    def is_tensor(self) -> bool:
        """Return True."""
        return True

    def is_sparse_tensor(self) -> bool:
        """Return False."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Return False."""
        return False

    def update_inplace(self, data: Array | OrtValue) -> None:
        """Replace the elements, in the same memory."""
        array = data.numpy() if isinstance(data, OrtValue) else data
        if array.dtype != self._array.dtype or array.shape != self._array.shape:
            raise InvalidArgument(
                f"the elements of a value must be replaced by {self._array.dtype}{list(self._array.shape)}, "
                f"got {array.dtype}{list(array.shape)}"
            )
        np.copyto(self._array, array)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class IOBinding:
    """Inputs and outputs of the runs of a session. Outputs without memory get new arrays in each run."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self._names = [one.name for one in session.get_outputs()]
        self._input_names = [one.name for one in session.get_inputs()]
        self.inputs: dict[str, Array] = {}
        self._outputs: dict[str, Array | None] = {}
        self._results: dict[str, Array] = {}
        self._call: Callable[[], int] | None = None

    def bind_cpu_input(self, name: str, array: Any) -> None:
        """Bind an input to an array."""
        self._call = None
        _check_name("input", name, self._input_names)
        self.inputs[name] = np.asarray(array)

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        """Bind an input to a value."""
        self.bind_cpu_input(name, value.numpy())

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Bind an input to memory of the CPU."""
        _check_device(device_type)
        self.bind_cpu_input(name, _at(buffer_ptr, element_type, shape))

    def bind_output(
        self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
        shape: Sequence[int] | None = None, buffer_ptr: int | None = None,
    ) -> None:  # fmt: skip
        """Bind an output to memory of the CPU, or request it."""
        _check_device(device_type)
        self._call = None
        _check_name("output", name, self._names)
        self._outputs[name] = (
            None if buffer_ptr is None else _at(buffer_ptr, element_type, shape or ())
        )

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        """Bind an output to a value, whose elements runs replace."""
        self._call = None
        _check_name("output", name, self._names)
        self._outputs[name] = value.numpy()

    def clear_binding_inputs(self) -> None:
        """Forget all inputs."""
        self._call = None
        self.inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget all outputs."""
        self._call = None
        self._outputs.clear()

    def synchronize_inputs(self) -> None:
        """Do nothing: all memory is that of the CPU."""

    def synchronize_outputs(self) -> None:
        """Do nothing, likewise."""

    def get_outputs(self) -> list[OrtValue]:
        """Return the outputs of the last run, in the order in which they were bound."""
        return [OrtValue(array) for array in self._results.values()]

    def copy_outputs_to_cpu(self) -> list[Array]:
        """Return the outputs of the last run."""
        return [array.copy() for array in self._results.values()]

    def run(self) -> None:
        """Run once. Where all outputs have memory, they are written in place, and arguments are checked once."""
        if self._call is None:
            self._call = self._bound()
        if self._call is not None:
            self.session.check_status(self.session.timed(self._call))
            return
        names = list(self._outputs)
        if not names:
            raise InvalidArgument("a binding needs an output; call bind_output")
        results = self.session.run(names, self.inputs)
        self._results = {}
        for name, result in zip(names, results, strict=True):
            memory = self._outputs[name]
            if memory is not None:
                if memory.shape != result.shape or memory.dtype != result.dtype:
                    raise InvalidArgument(
                        f"output '{name}' needs memory for {result.dtype}{list(result.shape)}, "
                        f"got {memory.dtype}{list(memory.shape)}"
                    )
                np.copyto(memory, result)
            self._results[name] = result if memory is None else memory

    def _bound(self) -> Callable[[], int] | None:
        memory = {name: array for name, array in self._outputs.items() if array is not None}
        model = self.session.model
        if model is None or set(memory) != set(self._names):
            return None
        call: Callable[[], int] = model.bind(self.inputs, [memory[name] for name in self._names])
        self._results = {name: memory[name] for name in self._outputs}
        return call


def _check_name(kind: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise InvalidArgument(f"there is no {kind} '{name}'; {kind}s are {', '.join(known)}")


def _check_device(device_type: str) -> None:
    if device_type.lower() != "cpu":
        raise InvalidArgument(f"the device must be cpu, got '{device_type}'")
