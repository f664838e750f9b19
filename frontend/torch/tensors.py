"""Tensors and element types of PyTorch, as arrays and types of graphc."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dtypes import DType, from_numpy
from ...base.errors import UnsupportedError
from ...graph_ir.ir.graph import Array
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.element_types import written_names
from ..refusals import OTHER_TYPE
from ..torch_calls.call import WORD_DTYPES
from .sizes import Sizes


def dtype_of(tensor: Any, who: str) -> DType:
    """The element type of a tensor. Raise UnsupportedError for those graphc does not have."""
    dtype = WORD_DTYPES.get(str(tensor.dtype))
    if dtype is None:
        raise UnsupportedError(f"{who}: element type {tensor.dtype} is not supported", OTHER_TYPE)
    return dtype


_NAMES = written_names(WORD_DTYPES)


def torch_dtype(dtype: DType) -> Any:
    """PyTorch's element type of this name. Raise KeyError for what it lacks, of which no graph of PyTorch's has
    tensors."""
    import torch

    return getattr(torch, _NAMES[dtype].removeprefix("torch."))


def array_of(tensor: Any, who: str) -> Array:
    """A tensor's elements, without a copy where they are dense and in main memory."""
    dtype_of(tensor, who)
    return shared_array(tensor.detach().cpu().resolve_conj().resolve_neg().contiguous())


def shared_array(tensor: Any) -> Array:
    """Return the elements of a dense tensor in main memory, which the array shares. Its dtype must be graphc's too."""
    import torch

    dtype = WORD_DTYPES[str(tensor.dtype)]
    if dtype.numpy.isbuiltin == 1:
        return np.asarray(tensor.numpy())
    array: Array = tensor.view(getattr(torch, _BITS[dtype.size])).numpy().view(dtype.numpy)
    return array


def shared_tensor(array: Array) -> Any:
    """Return the tensor that shares the memory of an array, which has an element or one axis."""
    import torch

    dtype = from_numpy(array.dtype)
    if dtype.numpy.isbuiltin == 1:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(_BITS[dtype.size])).view(torch_dtype(dtype))


_BITS = {1: "uint8", 2: "int16"}
"""The integers of NumPy and PyTorch that hold the bits of a type that NumPy itself has not, by its bytes."""


def details_of(tensor: Any, who: str, sizes: Sizes) -> LogicalTensor | None:
    """Element type and shape of a tensor; None where a size is not an expression. Raise UnsupportedError unless
    dense."""
    import torch

    if tensor.layout != torch.strided or tensor.is_quantized:
        raise UnsupportedError(
            f"{who}: a tensor that is not dense is not supported", "give it dense"
        )
    dims = [sizes.of(dim) for dim in tensor.shape]
    known = tuple(dim for dim in dims if dim is not None)
    return LogicalTensor(dtype_of(tensor, who), known) if len(known) == len(dims) else None
