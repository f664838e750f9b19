"""rng-bit-generator: the known answers of Threefry, and which counter makes which element."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc.frontend.hlo import import_hlo, parse_hlo
from support.hlo_text import one_op, run

# Key, counter and result of Threefry-2x32 with 20 rounds, from the known-answer tests of its authors' Random123.
KNOWN = [
    (0, 0, 0x99BA4EFE_6B200159),
    (2**64 - 1, 2**64 - 1, 0xBB002BE7_1CB996FC),
    (0x03707344_13198A2E, 0x85A308D3_243F6A88, 0x483DF7A0_C4923A9C),
]


def bits(state: np.ndarray, shape: str, algorithm: str = "three_fry") -> list[np.ndarray]:
    kind = f"{'u64' if state.dtype == np.uint64 else 'u32'}[{state.size}]"
    operation = f"rng-bit-generator(p0), algorithm=rng_{algorithm}"
    return run(one_op([kind], f"({kind}, {shape})", operation), state)


@pytest.mark.parametrize(("key", "counter", "wanted"), KNOWN)
def test_known_answers(key: int, counter: int, wanted: int) -> None:
    state, result = bits(np.array([key, counter], np.uint64), "u64[1]")
    assert [int(x) for x in state] == [key, (counter + 1) % 2**64]
    assert int(result[0]) == wanted


def test_each_call_of_the_cipher_gives_two_neighbors_of_an_even_axis() -> None:
    start = np.array([5, 100], np.uint64)
    words = bits(start, "u64[6]")[1].view(np.uint32).reshape(6, 2)
    state, even = bits(start, "u32[3,4]")
    np.testing.assert_array_equal(even, words.reshape(3, 2, 2).reshape(3, 4))
    assert int(state[1]) == 106
    # The first axis is halved, rounded up, and the last row dropped.
    state, odd = bits(start, "u32[3,3]")
    np.testing.assert_array_equal(odd, words.reshape(2, 3, 2).swapaxes(1, 2).reshape(4, 3)[:3])
    assert int(state[1]) == 106


def test_states_of_four_words_and_narrow_bits() -> None:
    wide = bits(np.array([2**33 + 1, 7], np.uint64), "u32[5]")
    state, narrow = bits(np.array([1, 2, 7, 0], np.uint32), "u8[5]")
    np.testing.assert_array_equal(narrow, wide[1].astype(np.uint8))
    np.testing.assert_array_equal(state, [1, 2, 10, 0])


def test_bits_of_a_scalar_take_one_count() -> None:
    state, scalar = bits(np.array([5, 100], np.uint64), "u32[]")
    assert int(state[1]) == 101
    assert scalar == bits(np.array([5, 100], np.uint64), "u64[1]")[1].view(np.uint32)[0]


# Key, counter and result of Philox-4x32 with 10 rounds, from the same tests: words, the low ones first.
PHILOX = [
    (0, 0, 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    (2**64 - 1, 2**64 - 1, 2**64 - 1, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        0x299F31D0_A4093822, 0x85A308D3_243F6A88, 0x03707344_13198A2E,
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("key", "low", "high", "wanted"), PHILOX)
def test_known_answers_of_philox(key: int, low: int, high: int, wanted: list[int]) -> None:
    state, result = bits(np.array([key, low, high], np.uint64), "u32[4]", "philox")
    assert [int(x) for x in result] == wanted
    total = (low + (high << 64) + 1) % (1 << 128)
    assert [int(x) for x in state] == [key, total % (1 << 64), total >> 64]


def test_philox_gives_words_in_rows_and_counts_each_call() -> None:
    start = np.array([5, 2**64 - 1, 9], np.uint64)
    state, words = bits(start, "u32[12]", "philox")
    assert [int(x) for x in state] == [5, 2, 10]  # a carry into the upper half
    np.testing.assert_array_equal(bits(start, "u32[3,3]", "philox")[1].ravel(), words[:9])
    np.testing.assert_array_equal(bits(start, "u64[5]", "philox")[1].view(np.uint32), words[:10])
    np.testing.assert_array_equal(bits(start, "u8[7]", "philox")[1], words[:7].astype(np.uint8))


def test_philox_of_a_short_state_counts_from_the_key_up() -> None:
    short = bits(np.array([7, 3], np.uint64), "u32[5]", "default")
    whole = bits(np.array([7, 3, 7], np.uint64), "u32[5]", "philox")
    np.testing.assert_array_equal(short[1], whole[1])
    assert [int(x) for x in short[0]] == [7, 5]
    halves = bits(np.array([7, 0, 3, 0], np.uint32), "u32[5]", "philox")
    np.testing.assert_array_equal(halves[1], whole[1])
    np.testing.assert_array_equal(halves[0], [7, 0, 5, 0])


def test_values_that_differ_from_run_to_run() -> None:
    source = one_op(["f32[]", "f32[]"], "f32[4]", "rng(p0, p1), distribution=rng_uniform")
    with pytest.raises(
        graphc.UnsupportedError, match=r"rng \(1x: its values differ from run to run, so pass"
    ):
        run(source)


@pytest.mark.parametrize(
    ("shape", "algorithm", "message"),
    [
        ("u64[3]", "rng_three_fry", "a state u64[3] is not supported; export the model without it"),
        ("u32[3]", "rng_philox", "a state u32[3] is not supported; export the model without it"),
        ("u64[4]", "rng_default", "a state u64[4] is not supported; export the model without it"),
        (
            "u64[2]",
            "rng_other",
            "algorithm rng_other is not supported; use rng_three_fry or rng_philox",
        ),
    ],
)
def test_what_is_not_supported(shape: str, algorithm: str, message: str) -> None:
    operation = f"rng-bit-generator(p0), algorithm={algorithm}"
    source = one_op([shape], f"({shape}, u32[4])", operation)
    with pytest.raises(graphc.UnsupportedError) as error:
        import_hlo(parse_hlo(source))
    assert str(error.value).endswith(message)


def test_bad_shapes() -> None:
    operation = "rng-bit-generator(p0), algorithm=rng_three_fry"
    with pytest.raises(graphc.UserError, match=r"its bits must be integers, got f32\[4\]"):
        run(one_op(["u64[2]"], "(u64[2], f32[4])", operation))
    with pytest.raises(graphc.UserError, match=r"its result must be \(u64\[2\], bits\), got"):
        run(one_op(["u64[2]"], "(u64[3], u32[4])", operation))
