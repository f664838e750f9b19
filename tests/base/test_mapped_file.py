"""Mapped files: what they hold, and what happens to their pages."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from graphc.base.mapped_file import map_file, release

MIB = 1 << 20


def test_contents_are_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert map_file(tmp_path / "f") == b"abc" and map_file(tmp_path / "f").readonly
    (tmp_path / "empty").write_bytes(b"")
    assert map_file(tmp_path / "empty") == b""
    with pytest.raises(FileNotFoundError):
        map_file(tmp_path / "missing")


@pytest.mark.skipif(sys.platform != "linux", reason="counts pages as Linux does")
def test_released_pages_leave_the_process_and_come_back(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 255, 32 * MIB, np.uint8)
    values.tofile(tmp_path / "f")
    view = map_file(tmp_path / "f")
    inner = np.frombuffer(view[5 : 5 + 24 * MIB], np.uint8)[: 24 * MIB - 7].reshape(-1, 1)
    expected = int(values[5 : 5 + 24 * MIB - 7].sum(dtype=np.int64))
    assert int(inner.sum(dtype=np.int64)) == expected
    before = resident_bytes()
    release(inner)
    assert resident_bytes() < before - 16 * MIB
    assert int(inner.sum(dtype=np.int64)) == expected


def test_arrays_of_other_memory_are_left_alone() -> None:
    array = np.ones(2 * MIB, np.uint8)
    for one in (array, array[5:], np.frombuffer(bytes(2 * MIB), np.uint8), array[:10]):
        release(one)
    assert array.all()


def resident_bytes() -> int:
    """Resident bytes of this process, files included."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
