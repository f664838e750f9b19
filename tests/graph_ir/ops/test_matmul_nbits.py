"""matmul_nbits: words and back, its formula, what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.base.packed_words import packed_words, unpacked_words
from graphc.graph_ir.ir.graph import Array
from graphc.graph_ir.ops.matmul_nbits import known_zero
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


@pytest.mark.parametrize(
    "zeros, known",
    [(None, -1), ([[8.0]], 8), ([[0.0]], 0), ([[8.0, 8.0]], -1), ([[-2.0]], -1), ([[7.5]], -1)],
)
def test_one_zero_point_that_is_a_level_is_known(zeros: Any, known: int) -> None:
    assert known_zero(None if zeros is None else np.array(zeros, np.float32)) == known


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
    attrs = {"bits": bits, "group": group, "parts": "x_scale" if of_bytes else ""}
    check_op("matmul_nbits", arrays, attrs, formula, 0)


@pytest.mark.parametrize("of_bytes", [False, True])
def test_rows_of_experts(of_bytes: bool) -> None:
    """Each row is multiplied by the matrix of its expert; that of no expert is 0."""

    def formula(
        x: Array, w: Array, scale: Array, zero: Array, expert: Array, *rest: Array
    ) -> Array:
        levels = unpacked_words(w, 4).reshape(3, 5, 2, 16) - zero[..., None]
        weights = (levels * scale[..., None]).reshape(3, 5, 32)
        rows = x * np.repeat(rest[0], 16, 1) if rest else x
        has_expert = (expert >= 0) & (expert < 3)
        matrices = weights[np.where(has_expert, expert, 0)]
        return np.where(has_expert[:, None], np.einsum("mk,mnk->mn", rows, matrices), 0.0)

    x = RANDOM.integers(-8, 9, (6, 32)).astype(np.int8 if of_bytes else np.float32)
    scale, x_scale = (
        np.ldexp(np.float32(1), RANDOM.integers(-3, 2, dims)) for dims in ((3, 5, 2), (6, 2))
    )
    words = packed_words(RANDOM.integers(0, 16, (15, 32)), 4).reshape(3, 5, 16)
    zero = RANDOM.integers(0, 16, (3, 5, 2)).astype(np.float32)
    arrays = [x, words, scale, zero, np.array([2, 2, 0, 3, -1, 2]), *([x_scale] * of_bytes)]
    parts = "expert,x_scale" if of_bytes else "expert"
    check_op("matmul_nbits", arrays, {"bits": 4, "group": 16, "parts": parts}, formula, 0)


PARTS = [
    (3, 16, "high,block_scale"), (2, 16, "block_scale,block_minimum"), (5, 32, "high,minimum"),
    (6, 16, "high,block_scale,x_scale"), (4, 32, "book"), (4, 16, "block_scale,minimum,block_minimum,x_scale"),
]  # fmt: skip


@pytest.mark.parametrize(("bits", "group", "parts"), PARTS, ids=lambda value: str(value))
def test_parts(bits: int, group: int, parts: str) -> None:
    """Small integers, two groups a block and, of X, two scales a row: every sum is exact."""
    m, n, groups, names = 2, 3, 4, parts.split(",")
    k, low = groups * group, {2: 2, 3: 2, 4: 4, 5: 4, 6: 4}[bits]
    numbers = RANDOM.integers(0, 1 << bits, (n, k))
    x = RANDOM.integers(-20, 21, (m, k)).astype(np.int8 if "x_scale" in names else np.float32)
    is_integer = "block_scale" in names
    scale: Array = RANDOM.integers(1, 16, (n, groups)).astype(
        np.uint8 if is_integer else np.float32
    )
    minimum: Array = RANDOM.integers(0, 16, (n, groups)).astype(
        np.uint8 if is_integer else np.float16
    )
    shares = "block_minimum" in names and "minimum" not in names
    made: dict[str, Any] = {
        "high": packed_words(numbers >> low, max(bits - low, 1)) if bits > low else None,
        "book": RANDOM.permutation(16).astype(np.uint8) * 2,
        "block_scale": np.full((n, 2), 0.5, np.float16),
        "minimum": minimum,
        "block_minimum": np.full((n, 2), -0.25, np.float32),
        "x_scale": np.ldexp(np.float32(1), RANDOM.integers(-3, 2, (m, 2))),
    }
    stored = scale | minimum << 4 if shares else scale
    arrays = [
        x,
        packed_words(numbers & (1 << low) - 1, low),
        stored,
        np.full((1, 1), 3, np.float32),
    ]

    def formula(x: Array, *rest: Array) -> Array:
        levels = made["book"][numbers].astype(int) if "book" in names else numbers
        factor = 0.5 if is_integer else 1.0
        weights = (levels - 3) * np.repeat(scale.astype(np.float64) * factor, group, 1)
        if shares or "minimum" in names:
            times = -0.25 if "block_minimum" in names else 1.0
            weights = weights + np.repeat(minimum.astype(np.float64) * times, group, 1)
        rows = x * np.repeat(made["x_scale"], k // 2, 1) if "x_scale" in names else x
        return np.asarray(rows @ weights.T)

    arrays += [made[name] for name in names]
    check_op("matmul_nbits", arrays, {"bits": bits, "group": group, "parts": parts}, formula, 0)


@pytest.mark.parametrize(
    ("changed", "attrs", "message"),
    [
        ({}, {"bits": 5}, "parts must have high where bits are 3, 5 or 6, and book only where they are 4, "
         "got bits 5 and ''"),
        ({}, {"bits": 7}, "bits must be 2 to 6, 8 or 16, and group a multiple of the levels of a word, "
         "got bits 7, group 16"),
        ({}, {"group": 12}, "bits must be 2 to 6, 8 or 16, and group a multiple of the levels of a word, "
         "got bits 4, group 12"),
        ({}, {"parts": "low"}, "parts must name the operands after zero_point, of high, book, block_scale, minimum, "
         "block_minimum, expert, x_scale in this order, got 'low' and 0 operands"),
        ({0: (2, 3, 32)}, {}, "x must be f32 [m, k], or s8 with x_scale, and w u8 [n, bytes], "
         "or f16 or bf16 of 16 bits, got f32[2,3,32] and u8[3,16]"),
        ({0: (2, 24)}, {}, "k must be a multiple of group 16, and w have k * 4 / 8 bytes a row, "
         "got f32[2,24] and u8[3,16]"),
        ({2: (3, 1)}, {}, "scale must be f32 or f16 or u8 or s8 or f8e8m0fnu or f8e4m3fn [3, 2], got f32[3,1]"),
        ({3: (2, 2)}, {}, "zero_point must be f32 [3, 2], got f32[2,2]"),
    ],
)  # fmt: skip
def test_refused(changed: dict[int, tuple[int, ...]], attrs: dict[str, Any], message: str) -> None:
    arrays = operands(4, 16)
    for index, shape in changed.items():
        arrays[index] = np.zeros(shape, np.float32)
    with pytest.raises(UserError) as error:
        make_op("matmul_nbits", arrays, {"bits": 4, "group": 16} | attrs)
    assert str(error.value) == f"matmul_nbits 'x': {message}"
