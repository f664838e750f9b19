"""Tensors and element types of PyTorch, as arrays and types of graphc."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dtypes import BF16, DType
from ...base.errors import UnsupportedError
from ...graph_ir.ir.graph import Array
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.element_types import written_names
from ..refusals import OTHER_TYPE
from ..torch_calls.call import WORD_DTYPES
from .sizes import Sizes


def dtype_of(tensor: Any, who: str) -> DType:
    """The element type of a tensor. UnsupportedError for those graphc does not have."""
    dtype = WORD_DTYPES.get(str(tensor.dtype))
    if dtype is None:
        raise UnsupportedError(f"{who}: element type {tensor.dtype} is not supported", OTHER_TYPE)
    return dtype


_NAMES = written_names(WORD_DTYPES)


def torch_dtype(dtype: DType) -> Any:
    """PyTorch's element type of this name. KeyError for what it lacks, of which no graph of PyTorch's has tensors."""
    import torch

    return getattr(torch, _NAMES[dtype].removeprefix("torch."))


def array_of(tensor: Any, who: str) -> Array:
    """A tensor's elements, without a copy where they are dense and in main memory."""
    import torch

    dtype = dtype_of(tensor, who)
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if dtype is BF16:
        array: Array = plain.view(torch.int16).numpy().view(BF16.numpy)
        return array
    return np.asarray(plain.numpy())


def details_of(tensor: Any, who: str, sizes: Sizes) -> LogicalTensor | None:
    """Element type and shape of a tensor; None where a size is no expression. UnsupportedError unless dense."""
    import torch

    if tensor.layout != torch.strided or tensor.is_quantized:
        raise UnsupportedError(
            f"{who}: a tensor that is not dense is not supported", "give it dense"
        )
    dims = [sizes.of(dim) for dim in tensor.shape]
    known = tuple(dim for dim in dims if dim is not None)
    return LogicalTensor(dtype_of(tensor, who), known) if len(known) == len(dims) else None
