"""The text of a model file, or why there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphc.base.errors import UserError
from graphc.frontend import model_text
from graphc.frontend.model_text import read_text


def test_text_of_bytes_and_of_files(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_bytes("\ufeffä".encode())
    assert read_text(path, "model", "model") == ("ä", str(path))
    assert read_text("ä".encode(), "model", "dump") == ("ä", "model")


def test_what_is_no_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="^model line 2: a dump must be UTF-8 text$"):
        read_text(b"a\n\xff", "model", "dump")
    with pytest.raises(
        UserError, match=r"^there is no file '.*none\.txt'; check its name and its folder$"
    ):
        read_text(tmp_path / "none.txt", "model", "dump")
    path = tmp_path / "m.txt"
    path.write_bytes(b"abc")
    monkeypatch.setattr(model_text, "MAX_BYTES", 2)
    with pytest.raises(UserError, match="a dump must not exceed 0 GiB$"):
        read_text(path, "model", "dump")
