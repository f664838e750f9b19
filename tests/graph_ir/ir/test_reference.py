import ml_dtypes
import numpy as np
import pytest

from graphc.base.dtypes import ALL, BF16, BOOL, F16, F32, F64, S8, S64, U8, U64
from graphc.graph_ir.ir.reference import convert, narrow, widen


def test_floats_widen_to_f64_and_others_stay():
    for dtype in ALL:
        wide = widen(np.ones(2, dtype.numpy))
        assert wide.dtype == (np.float64 if dtype.is_float else dtype.accumulator.numpy)


def test_16_bit_floats_are_narrowed_through_f32():
    just_above_half = 1 + 2.0**-11 + 2.0**-40
    assert narrow(just_above_half, F16) == np.float16(1.0)  # what native f32 code stores
    assert narrow(1 + 2.0**-7, BF16) == ml_dtypes.bfloat16(1 + 2.0**-7)
    assert narrow(1e300, F32) == np.inf


def test_integers_wrap():
    assert narrow(np.array([300, -1]), U8).tolist() == [44, 255]
    assert convert(np.array([300, -1]), S8).tolist() == [44, -1]


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (-0.9, S8, 0), (127.9, S8, 127), (128.0, S8, 127), (-129.0, S8, -128), (-1.0, U8, 0), (255.9, U8, 255),
        (2.0**63, S64, 2**63 - 1), (-(2.0**63), S64, -(2**63)), (2.0**64, U64, 2**64 - 1), (2.0**63, U64, 2**63),
        (np.nan, S64, 0), (np.inf, U64, 2**64 - 1), (-np.inf, S8, -128), (np.nan, BOOL, True), (-0.0, BOOL, False),
    ],
)  # fmt: skip
def test_float_to_integer(value, dtype, expected):
    result = convert(np.array([value]), dtype)
    assert result.dtype == dtype.numpy and result.tolist() == [expected]


def test_large_integers_become_the_nearest_f32():
    value = 2**24 + 2**40 + 1
    assert convert(np.array([value]), F32)[0] == np.float32(value)
    assert convert(np.array([value]), F64)[0] == float(value)
