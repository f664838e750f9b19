from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import BF16, BOOL, F32, S8
from graphc.base.errors import UserError
from graphc.graph_ir.ir.format import parse_format, plain
from graphc.graph_ir.ir.logical_tensor import LogicalTensor


def test_plain_by_default() -> None:
    tensor = LogicalTensor(F32, (3, 5))
    assert tensor.format == plain(2)
    assert (tensor.rank, tensor.elements, tensor.size_bytes) == (2, 15, 60)
    assert tensor.physical_dims == (3, 5)
    assert str(tensor) == "f32[3,5]"


def test_sizes_in_memory_include_padding() -> None:
    tensor = LogicalTensor(BF16, (17, 33), parse_format("MK16m32k"))
    assert tensor.physical_dims == (2, 2, 16, 32)
    assert tensor.elements == 17 * 33 and tensor.size_bytes == 2 * 2 * 16 * 32 * 2
    assert str(tensor) == "bf16[17,33]{MK16m32k}"


def test_scalar_and_empty() -> None:
    assert LogicalTensor(BOOL, ()).elements == 1 and LogicalTensor(BOOL, ()).size_bytes == 1
    assert LogicalTensor(S8, (0, 4), parse_format("MK4k")).size_bytes == 0
    assert str(LogicalTensor(S8, ())) == "s8[]"


def test_with_format_changes_only_the_layout() -> None:
    tensor = LogicalTensor(F32, (1, 8, 2, 2))
    other = tensor.with_format(parse_format("NHWC"))
    assert (other.dtype, other.plain_dims, str(other.format)) == (F32, (1, 8, 2, 2), "NHWC")
    assert tensor != other and other.with_format(plain(4)) == tensor


def test_sizes_become_python_integers() -> None:
    tensor = LogicalTensor(F32, (np.int64(3), np.int32(2)))
    assert all(type(size) is int for size in tensor.plain_dims)


def test_rejects_negative_sizes_and_other_ranks() -> None:
    with pytest.raises(UserError, match=r"must not be negative, got \[3, -1\]"):
        LogicalTensor(F32, (3, -1))
    with pytest.raises(UserError, match="format 'NHWC' must have the axes of the tensor"):
        LogicalTensor(F32, (3, 1), parse_format("NHWC"))
