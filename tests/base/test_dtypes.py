"""Element types: one object for each."""

from __future__ import annotations

import copy
import pickle

import pytest

from graphc.base.dtypes import ALL, BF16, BOOL, F16, F32, F64, S64, U8, DType, by_any_name
from graphc.base.errors import UserError


@pytest.mark.parametrize("dtype", ALL)
def test_copies_are_the_type_itself(dtype: DType) -> None:
    """So that `is` and `==` mean the same, in processes that parts of programs are sent to as well."""
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.deepcopy(dtype) is copy.copy(dtype) is dtype


def test_what_a_type_says() -> None:
    assert (F16.size, F16.is_float, F16.is_signed, F16.accumulator) == (2, True, True, F32)
    assert (S64.size, S64.is_float, S64.is_signed, S64.accumulator) == (8, False, True, S64)
    assert repr(F32) == "f32"


def test_names_of_other_libraries() -> None:
    for dtype in ALL:
        assert by_any_name(dtype.name) is by_any_name(dtype.numpy.name) is dtype
    names = [
        "boolean",
        "BOOL",
        "float32",
        "Float",
        "double",
        "half",
        "bfloat16",
        "int64",
        "i64",
        "uint8",
    ]
    names.append("tensor(int64)")
    wanted = [BOOL, BOOL, F32, F32, F64, F16, BF16, S64, S64, U8, S64]
    assert [by_any_name(name) for name in names] == wanted
    with pytest.raises(UserError, match="dtype 'float33' is not known"):
        by_any_name("float33")
