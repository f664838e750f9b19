"""Calls of a compiled model with tensors of PyTorch, which share memory with the arrays that native code sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..base.aligned_memory import ALIGNMENT, aligned_empty, large_alignment
from ..base.errors import UserError
from ..frontend.torch.tensors import shared_array, shared_tensor, torch_dtype
from ..runtime.executor import CompiledModel
from ..runtime.metadata import TensorSpec

NO_GRADIENTS = (
    "graphc compiles inference, but gradients are wanted here; "
    "call the model under torch.no_grad() or torch.inference_mode()"
)


def to_array(tensor: Any, spec: TensorSpec) -> np.ndarray:
    """The elements of a tensor in main memory: without a copy if it is dense. Raise UserError for other devices and
    types."""
    if tensor.device.type != "cpu":
        raise UserError(
            f"input '{spec.name}' must be in main memory, got a tensor on {tensor.device}; use tensor.cpu()"
        )
    if tensor.requires_grad or not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return shared_array(tensor)


def to_tensor(array: np.ndarray) -> Any:
    """A tensor that shares the memory of an array."""
    if not array.size and array.ndim != 1:  # whose strides NumPy says are 0
        return to_tensor(array.reshape(-1)).view(array.shape)
    return shared_tensor(array)


def run(model: CompiledModel, tensors: Sequence[Any]) -> list[Any]:
    """The results for tensors in the order of the model's inputs."""
    arrays = [to_array(x, spec) for x, spec in zip(tensors, model.inputs, strict=True)]
    found = model(*arrays)
    return [to_tensor(y) for y in (found if isinstance(found, tuple) else (found,))]


def make_runner(model: CompiledModel) -> Callable[[Sequence[Any]], list[Any]]:
    """`run` for tensors that Dynamo's guards have checked: each has the type of its input.

    Native code gets their addresses, and those of results that PyTorch allocates: arrays of NumPy in between are a
    tenth of a millisecond where the last call has emptied the CPU's caches.
    """
    import torch

    if not model.takes_addresses:
        return partial(run, model)
    kind, run_at, sized = torch._C.TensorBase, model.run_at, model.sized
    address, is_dense, is_negated, is_here = (
        kind.data_ptr, kind.is_contiguous, kind.is_neg, kind.is_cpu.__get__
    )  # fmt: skip
    fixed = None if model.artifact.metadata.sizes else sized(())
    makers = () if fixed is None else [_allocator(spec) for spec in fixed.outputs]

    def run_dense(tensors: Sequence[Any]) -> list[Any]:
        if not all(map(is_here, tensors)):
            return run(model, tensors)  # which says what is wrong
        if not all(map(is_dense, tensors)) or any(map(is_negated, tensors)):
            tensors = [x.resolve_neg().contiguous() for x in tensors]
        at, made = fixed, makers
        if at is None:
            at = sized(tuple([tuple(x.shape) for x in tensors]))
            made = [_allocator(spec) for spec in at.outputs]
        results = [make() for make in made]
        run_at(at, list(map(address, tensors)), list(map(address, results)))
        return results

    return run_dense


def _allocator(spec: TensorSpec) -> Callable[[], Any]:
    """Makes a tensor that is not initialized. NumPy asks the system for huge pages, PyTorch does not."""
    import torch

    alignment = large_alignment(spec.nbytes)
    if alignment > ALIGNMENT:
        return lambda: to_tensor(aligned_empty(spec.shape, spec.dtype.numpy))
    return partial(torch.empty, spec.shape, dtype=torch_dtype(spec.dtype))
