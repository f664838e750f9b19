"""TVM's parameter files: the exact bytes, every type, and damaged files."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from graphc.dtypes import ALL
from graphc.errors import InternalError, UserError
from graphc.frontend.tvm.params import ParamsWriter, iterate_params, read_params, write_params


def test_the_bytes_are_those_of_the_format(tmp_path: Path) -> None:
    write_params(tmp_path / "p", {"ab": np.array([[1.0, 2.0]], np.float32)})
    expected = (
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
    assert (tmp_path / "p").read_bytes() == expected


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5)], ids=str)
def test_every_type_comes_back(dtype, shape, tmp_path: Path) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype.numpy)
    write_params(tmp_path / "p", {"x": array, "again": array})
    found = read_params(tmp_path / "p")
    assert list(found) == ["x", "again"]
    assert found["x"].dtype == array.dtype
    np.testing.assert_array_equal(found["x"], array)


def test_a_bool_may_be_code_6(tmp_path: Path) -> None:
    write_params(tmp_path / "p", {"x": np.array([True, False])})
    data = (tmp_path / "p").read_bytes()
    (tmp_path / "p").write_bytes(data.replace(b"\x01\x01\x01\x00", b"\x06\x01\x01\x00"))
    np.testing.assert_array_equal(read_params(tmp_path / "p")["x"], [True, False])


def test_arrays_are_read_one_at_a_time(tmp_path: Path) -> None:
    writer = ParamsWriter(tmp_path / "p", ["a", "b"])
    writer.add(np.zeros(2))
    writer.add(np.ones(2))
    with pytest.raises(InternalError, match="2 names got one more"):
        writer.add(np.ones(2))
    writer.close()
    names = iterate_params(tmp_path / "p")
    assert next(names)[0] == "a"


@pytest.mark.parametrize("cut", range(0, 130, 3))
def test_a_file_cut_short_is_the_users_error(cut: int, tmp_path: Path) -> None:
    write_params(tmp_path / "p", {"ab": np.zeros((2, 4), np.float32)})
    data = (tmp_path / "p").read_bytes()
    assert len(data) == 130
    (tmp_path / "p").write_bytes(data[: min(cut, len(data) - 1)])
    with pytest.raises(UserError, match="needs .* bytes, got"):
        read_params(tmp_path / "p")


def test_mxnets_files_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(struct.pack("<QQ", 0x112, 0))
    with pytest.raises(UserError, match="it is MXNet's"):
        read_params(tmp_path / "p")
    with pytest.raises(UserError, match="cannot read"):
        read_params(tmp_path / "none")


def test_a_shape_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    write_params(tmp_path / "p", {"x": np.zeros(3, np.float32)})
    data = (tmp_path / "p").read_bytes()
    bad = data.replace(struct.pack("<qq", 3, 12), struct.pack("<qq", 1 << 60, 12))
    (tmp_path / "p").write_bytes(bad)
    with pytest.raises(UserError, match="must fit its byte count"):
        read_params(tmp_path / "p")
