"""matmul_nbits: words and back, its formula, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Array
from graphc.graph_ir.ops.matmul_nbits import packed_words, unpacked_words
from support.check_op import check_op, make_op

RANDOM = np.random.default_rng(0)


def operands(bits: int, group: int, of_bytes: bool = False, one_zero: bool = False) -> list[Array]:
    """Rows of small integers and scales that are powers of two: every sum is exact."""
    m, n, k = 2, 3, 2 * group
    numbers = RANDOM.integers(0, 1 << bits, (n, k))
    x = RANDOM.integers(-127, 128, (m, k)).astype(np.int8 if of_bytes else np.float32)
    zero = RANDOM.integers(0, 1 << bits, (1, 1) if one_zero else (n, 2))
    scales = [np.ldexp(np.float32(1), RANDOM.integers(-3, 2, (rows, 2))) for rows in (n, m)]
    arrays = [x, packed_words(numbers, bits), scales[0], zero.astype(np.float32)]
    return [*arrays, scales[1]] if of_bytes else arrays


@pytest.mark.parametrize("bits", [4, 8])
def test_words_hold_neighbors_in_bytes(bits: int) -> None:
    numbers = RANDOM.integers(0, 1 << bits, (5, 48))
    words = packed_words(numbers, bits)
    assert words.shape == (5, 48 * bits // 8) and words.dtype == np.uint8
    np.testing.assert_array_equal(unpacked_words(words, bits), numbers)
    assert words[0, 1] & ((1 << bits) - 1) == numbers[0, 1]
    if bits == 4:
        assert words[0, 1] >> 4 == numbers[0, 5]


@pytest.mark.parametrize("scale_dtype", [np.float32, np.float16])
@pytest.mark.parametrize("of_bytes", [False, True])
@pytest.mark.parametrize("one_zero", [False, True])
@pytest.mark.parametrize(("bits", "group"), [(4, 16), (8, 4)])
def test_formula(bits: int, group: int, one_zero: bool, of_bytes: bool, scale_dtype: type) -> None:
    def formula(x: Array, w: Array, scale: Array, zero: Array, *x_scale: Array) -> Array:
        spread = [np.repeat(np.broadcast_to(v, scale.shape), group, 1) for v in (zero, scale)]
        weights = (unpacked_words(w, bits) - spread[0]) * spread[1]
        rows = x * np.repeat(x_scale[0], group, 1) if x_scale else x
        return np.asarray(rows @ weights.T)

    arrays = operands(bits, group, of_bytes, one_zero)
    arrays[2] = arrays[2].astype(scale_dtype)
    check_op("matmul_nbits", arrays, {"bits": bits, "group": group}, formula, 0)


@pytest.mark.parametrize(
    ("changed", "attrs", "message"),
    [
        ({}, {"bits": 5}, "bits must be 4 or 8 and group a multiple of 32 / bits, got bits 5, group 16"),
        ({}, {"group": 12}, "bits must be 4 or 8 and group a multiple of 32 / bits, got bits 4, group 12"),
        ({0: (2, 3, 32)}, {}, "x must be f32 [m, k], or s8 with x_scale, and w u8 [n, bytes], "
         "got f32[2,3,32] and u8[3,16]"),
        ({0: (2, 24)}, {}, "k must be a multiple of group 16, and w have k * bits / 8 bytes a row, "
         "got f32[2,24] and u8[3,16]"),
        ({2: (3, 1)}, {}, "scale must be f32 or f16 [3, 2], got f32[3,1]"),
        ({3: (2, 2)}, {}, "zero_point must be f32 [3, 2], got f32[2,2]"),
    ],
)  # fmt: skip
def test_refused(changed: dict[int, tuple[int, ...]], attrs: dict[str, int], message: str) -> None:
    arrays = operands(4, 16)
    for index, shape in changed.items():
        arrays[index] = np.zeros(shape, np.float32)
    with pytest.raises(UserError) as error:
        make_op("matmul_nbits", arrays, {"bits": 4, "group": 16} | attrs)
    assert str(error.value) == f"matmul_nbits 'x': {message}"
