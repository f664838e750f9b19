"""Calls of a compiled model with tensors of PyTorch, which share memory with the arrays that native code sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.dtypes import BF16
from ..base.errors import UserError
from ..runtime.executor import CompiledModel
from ..runtime.metadata import TensorSpec


def to_array(tensor: Any, spec: TensorSpec) -> np.ndarray:
    """The elements of a tensor in main memory: without a copy if it is dense. UserError for other devices and types."""
    import torch

    if tensor.device.type != "cpu":
        raise UserError(
            f"input '{spec.name}' must be in main memory, got a tensor on {tensor.device}; use tensor.cpu()"
        )
    if tensor.requires_grad or not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype is torch.bfloat16:
        array: np.ndarray = tensor.view(torch.int16).numpy().view(BF16.numpy)
        return array
    return np.asarray(tensor.numpy())


def to_tensor(array: np.ndarray) -> Any:
    """A tensor that shares the memory of an array."""
    import torch

    if not array.size and array.ndim != 1:  # whose strides NumPy says are 0
        return to_tensor(array.reshape(-1)).view(array.shape)
    if array.dtype == BF16.numpy:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def run(model: CompiledModel, tensors: Sequence[Any]) -> list[Any]:
    """The results for tensors in the order of the model's inputs."""
    arrays = [to_array(x, spec) for x, spec in zip(tensors, model.inputs, strict=True)]
    found = model(*arrays)
    return [to_tensor(y) for y in (found if isinstance(found, tuple) else (found,))]
