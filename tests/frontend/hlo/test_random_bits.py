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


def bits(state: np.ndarray, shape: str) -> list[np.ndarray]:
    kind = "u64[2]" if state.dtype == np.uint64 else "u32[4]"
    operation = "rng-bit-generator(p0), algorithm=rng_three_fry"
    return run(one_op([kind], f"({kind}, {shape})", operation), state)


@pytest.mark.parametrize(("key", "counter", "wanted"), KNOWN)
def test_known_answers(key: int, counter: int, wanted: int) -> None:
    state, result = bits(np.array([key, counter], np.uint64), "u64[1]")
    assert [int(x) for x in state] == [key, (counter + 1) % 2**64]
    assert int(result[0]) == wanted


def test_each_call_of_the_cipher_gives_two_neighbours_of_an_even_axis() -> None:
    start = np.array([5, 100], np.uint64)
    words = bits(start, "u64[6]")[1].view(np.uint32).reshape(6, 2)
    state, even = bits(start, "u32[3,4]")
    np.testing.assert_array_equal(even, words.reshape(3, 2, 2).reshape(3, 4))
    assert int(state[1]) == 106
    state, odd = bits(
        start, "u32[3,3]"
    )  # the first axis is halved, rounded up, and the last row dropped
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


@pytest.mark.parametrize(
    ("shape", "algorithm", "message"),
    [
        ("u64[3]", "rng_three_fry", "a state u64[3] is not supported"),
        ("u64[2]", "rng_default", "algorithm rng_default is not supported"),
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
