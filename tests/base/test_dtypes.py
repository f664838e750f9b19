"""Element types: one object for each."""

from __future__ import annotations

import copy
import pickle

import pytest

from graphc.base.dtypes import ALL, F16, F32, S64, DType


@pytest.mark.parametrize("dtype", ALL)
def test_copies_are_the_type_itself(dtype: DType) -> None:
    """So that `is` and `==` mean the same, in processes that parts of programs are sent to as well."""
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.deepcopy(dtype) is copy.copy(dtype) is dtype


def test_what_a_type_says() -> None:
    assert (F16.size, F16.is_float, F16.is_signed, F16.accumulator) == (2, True, True, F32)
    assert (S64.size, S64.is_float, S64.is_signed, S64.accumulator) == (8, False, True, S64)
    assert repr(F32) == "f32"
