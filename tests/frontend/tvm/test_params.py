"""TVM's parameter files: the exact bytes, every type, mapped files, and corrupt ones."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphc.base.dtypes import USUAL, DType
from graphc.base.errors import GraphcError, InternalError, UnsupportedError, UserError
from graphc.frontend.tvm.params import ParamsWriter, params_chunks, read_params, write_params

EXAMPLE = (
    struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, 1)
    + struct.pack("<Q", 2) + b"ab"
    + struct.pack("<Q", 1)
    + struct.pack("<QQ", 0xDD5E40F096B4A13F, 0)
    + struct.pack("<iii", 1, 0, 2)
    + struct.pack("<BBH", 2, 32, 1)
    + struct.pack("<qq", 1, 2)
    + struct.pack("<q", 8)
    + struct.pack("<ff", 1.0, 2.0)
)  # fmt: skip


def pack_params(arrays: dict[str, np.ndarray]) -> bytes:
    return b"".join(map(bytes, params_chunks(arrays)))


def test_the_bytes_are_those_of_the_format() -> None:
    assert pack_params({"ab": np.array([[1.0, 2.0]], np.float32)}) == EXAMPLE
    assert pack_params(read_params(EXAMPLE)) == EXAMPLE


@pytest.mark.parametrize("dtype", USUAL, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5)], ids=str)
def test_every_type_comes_back(dtype: DType, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype.numpy)
    data = pack_params({"x": array, "again": array})
    found = read_params(data)
    assert list(found) == ["x", "again"]
    assert found["x"].dtype == array.dtype
    np.testing.assert_array_equal(found["x"], array)
    assert pack_params(found) == data


def test_a_transposed_or_big_endian_array_is_written_in_order() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert pack_params({"x": array.T}) == pack_params({"x": array.T.copy()})
    assert pack_params({"x": array.astype(">i4")}) == pack_params({"x": array})


def test_a_bool_may_be_code_6() -> None:
    data = pack_params({"x": np.array([True, False])})
    new = data.replace(b"\x01\x01\x01\x00", b"\x06\x08\x01\x00")
    np.testing.assert_array_equal(read_params(new)["x"], [True, False])


def test_a_file_is_mapped_not_copied(tmp_path: Path) -> None:
    array = np.arange(1000, dtype=np.float32)
    write_params(tmp_path / "p", {"x": array})
    found = read_params(tmp_path / "p")["x"]
    np.testing.assert_array_equal(found, array)
    assert not found.flags.owndata and not found.flags.writeable


def test_a_file_may_be_written_from_what_it_maps(tmp_path: Path) -> None:
    path = tmp_path / "m.params"
    write_params(path, {"a": np.arange(100_000, dtype=np.float32), "b": np.ones(3, np.int8)})
    arrays = read_params(path)
    write_params(path, dict(reversed(arrays.items())))
    again = read_params(path)
    assert list(again) == ["b", "a"] and again["a"][-1] == arrays["a"][-1] == 99_999
    assert [file.name for file in tmp_path.iterdir()] == ["m.params"]


def test_arrays_are_written_one_at_a_time(tmp_path: Path) -> None:
    writer = ParamsWriter(tmp_path / "p", ["a", "b"])
    writer.add(np.zeros(2))
    writer.add(np.ones(2))
    with pytest.raises(InternalError, match="2 names got one more"):
        writer.add(np.ones(2))
    writer.close()
    assert (tmp_path / "p").read_bytes() == pack_params({"a": np.zeros(2), "b": np.ones(2)})
    assert list(read_params(tmp_path / "p")) == ["a", "b"]


def test_bytes_after_the_last_array_are_ignored() -> None:
    np.testing.assert_array_equal(read_params(EXAMPLE + b"more")["ab"], [[1, 2]])


@pytest.mark.parametrize("cut", range(len(EXAMPLE)))
def test_a_file_cut_short(cut: int) -> None:
    with pytest.raises(
        UserError, match=r"^params byte \d+: (the file ends inside|.* do not fit in)"
    ):
        read_params(EXAMPLE[:cut])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (EXAMPLE[:8], struct.pack("<Q", 7),
         "params byte 0: the magic number must be 0xf7e58d4f05049cb7, got 0x7"),
        (struct.pack("<Q", 0xDD5E40F096B4A13F), struct.pack("<Q", 7),
         "params byte 42: array 'ab' must begin with 0xdd5e40f096b4a13f, got 0x7"),
        (struct.pack("<QQ", 0, 1), struct.pack("<QQ", 0, 2**63),
         "params byte 24: 9223372036854775808 names do not fit in the 82 bytes that are left; copy the file again"),
        (struct.pack("<qqq", 1, 2, 8), struct.pack("<qqq", 1 << 60, 2, 8),
         f"params byte 98: array 'ab' of shape [{1 << 60}, 2] and float32 cannot have 8 bytes; copy the file again"),
        (struct.pack("<iiiB", 1, 0, 2, 2), struct.pack("<iiiB", 1, 0, -2, 2),
         "params byte 74: array 'ab' must have at most 32 axes, got -2"),
        (b"ab", b"\xff\xfe", "params byte 32: names must be UTF-8"),
    ],
)  # fmt: skip
def test_corrupt_files(old: bytes, new: bytes, message: str) -> None:
    with pytest.raises(UserError) as error:
        read_params(EXAMPLE.replace(old, new, 1))
    assert str(error.value) == message


def test_other_files(tmp_path: Path) -> None:
    twice = pack_params({"a": np.zeros(1), "b": np.zeros(1)}).replace(b"b", b"a", 1)
    with pytest.raises(UserError, match="names must be unique, got 'a' twice$"):
        read_params(twice)
    with pytest.raises(UnsupportedError, match="^params: parameters of MXNet are not supported"):
        read_params(struct.pack("<QQ", 0x112, 0))
    with pytest.raises(
        UnsupportedError, match="code 2 of 32 bits and 4 lanes, which is not supported"
    ):
        read_params(EXAMPLE.replace(struct.pack("<BBH", 2, 32, 1), struct.pack("<BBH", 2, 32, 4)))
    with pytest.raises(UnsupportedError, match="^parameter 'x': dtype complex64 has no code"):
        pack_params({"x": np.zeros(1, np.complex64)})
    with pytest.raises(UserError, match="^there is no file '"):
        read_params(tmp_path / "none")
    (tmp_path / "empty").touch()
    with pytest.raises(UserError, match="but it is empty$"):
        read_params(tmp_path / "empty")


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(EXAMPLE) - 1), st.integers(0, 255)), min_size=1, max_size=4
    )
)
def test_flipped_bytes(flips: list[tuple[int, int]]) -> None:
    data = bytearray(EXAMPLE)
    for offset, value in flips:
        data[offset] = value
    with contextlib.suppress(GraphcError):
        read_params(bytes(data))
