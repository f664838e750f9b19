"""Files that a command reads, which its outputs must not replace."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphc.base.errors import UserError
from graphc.base.source_files import check_not_source, keep_sources, note_source
from graphc.base.whole_file import write_file


@pytest.mark.parametrize("name", ["a", "link", "hard", "folder/../a"])
def test_a_source_is_kept_by_any_name(name: str, tmp_path: Path) -> None:
    source = tmp_path / "a"
    source.write_text("old")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "hard").hardlink_to(source)
    with keep_sources():
        note_source(source)
        with pytest.raises(UserError, match="must not replace a file that the command reads"):
            write_file(tmp_path / name, "new")
        write_file(tmp_path / "b", "new")
        check_not_source(tmp_path / "none")
        check_not_source(tmp_path)
    assert source.read_text() == "old"
    write_file(source, "new")
    assert source.read_text() == "new"


def test_outside_commands_no_source_is_noted(tmp_path: Path) -> None:
    note_source(tmp_path / "a")
    write_file(tmp_path / "a", "1")
    write_file(tmp_path / "a", "2")
    with keep_sources():
        write_file(tmp_path / "a", "3")
    assert (tmp_path / "a").read_text() == "3"
