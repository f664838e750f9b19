"""Errors about files that the system refuses: each reason has its remedy."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from graphc.base.file_errors import unreadable, unwritable


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOENT, "make its folder first, or give another path"),
        (errno.EISDIR, "give the name of a file"),
        (errno.EROFS, "give a path that you may write to"),
        (errno.EDQUOT, "make room on the device, or give a path on another"),
        (errno.EBADF, "give another path"),
    ],
)
def test_what_cannot_be_written(number: int, remedy: str) -> None:
    reason = os.strerror(number)
    error = unwritable("a/b", OSError(number, reason))
    assert str(error) == f"cannot write 'a/b' ({reason}); {remedy}"
    assert str(unwritable("b", OSError(number, reason), "--json")).startswith("--json: cannot ")


def test_a_missing_file_is_compared_with_those_beside_it(tmp_path: Path) -> None:
    (tmp_path / "mlp.onnx").touch()
    near, far, lost = tmp_path / "mlp.onx", tmp_path / "q", tmp_path / "no" / "mlp.onnx"
    missing = FileNotFoundError()
    assert str(unreadable(near, missing)) == f"there is no file '{near}'; did you mean 'mlp.onnx'?"
    assert str(unreadable(far, missing)).endswith("; check its name and its folder")
    assert str(unreadable(lost, missing)) == (
        f"there is no file '{lost}'; check the path: its folder '{tmp_path}/no' cannot be opened either"
    )
    assert str(unreadable(near, missing, "input 'x'", "make it")) == (
        f"input 'x': there is no file '{near}'; make it"
    )


def test_what_cannot_be_read() -> None:
    assert str(unreadable("d", IsADirectoryError(errno.EISDIR, "Is a directory"))) == (
        "cannot read 'd' (Is a directory); give a file in it"
    )
    assert str(unreadable("a", ValueError("embedded null byte"))) == (
        "cannot read 'a' (embedded null byte); give another path"
    )
