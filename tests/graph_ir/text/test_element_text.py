from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import ALL, BF16, BOOL, F16, F32, F64, S8, U8, U64, DType
from graphc.base.errors import UserError
from graphc.graph_ir.text.element_text import print_elements, read_elements


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_every_16_bit_pattern_round_trips(dtype: DType) -> None:
    bits = np.arange(1 << 16).astype(np.uint16)
    texts = print_elements(bits.view(dtype.numpy))
    assert np.array_equal(read_elements(texts, dtype).view(np.uint16), bits)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_random_bit_patterns_round_trip(dtype: DType) -> None:
    bits = np.frombuffer(np.random.default_rng(0).bytes(8000), f"u{dtype.size}")
    back = read_elements(print_elements(bits.view(dtype.numpy)), dtype)
    assert np.array_equal(back.view(bits.dtype), bits)


@pytest.mark.parametrize("dtype", [d for d in ALL if d.kind in ("int", "uint")], ids=str)
def test_integer_limits_round_trip(dtype: DType) -> None:
    low, high = dtype.limits
    values = np.array([low, 0, 1, high], dtype.numpy)
    assert np.array_equal(read_elements(print_elements(values), dtype), values)


def test_texts() -> None:
    values = np.array([[0.1, -0.0], [1e-45, 3.0], [np.inf, np.nan]], np.float32)
    assert print_elements(values) == ["0.1", "-0.0", "1e-45", "3.0", "inf", "nan"]
    assert print_elements(np.array([0xFFC00001], np.uint32).view(np.float32)) == ["0xffc00001"]
    assert print_elements(np.array([True, False])) == ["true", "false"]
    assert print_elements(np.array([1.5, 2], ">f4")) == ["1.5", "2.0"]
    assert print_elements(np.zeros((0, 3))) == []


@pytest.mark.parametrize(
    ("texts", "dtype"),
    [(["1"], BOOL), (["1.5"], S8), (["200"], S8), (["-1"], U8), (["x"], F32), (["0xg"], F32)],
)
def test_rejects_invalid_elements(texts: list[str], dtype: DType) -> None:
    with pytest.raises(UserError, match=f"elements of tensor text must be {dtype}: "):
        read_elements(texts, dtype)


def test_large_unsigned() -> None:
    assert read_elements([str(2**64 - 1)], U64)[0] == 2**64 - 1
