"""Other users' access to a folder or a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphc.base.own_files import _weakness, own_file, weak_step


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a path belong to another user than this process."""
    if os.geteuid() == 0:
        os.chown(path, 12345, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)


def test_folders_of_the_user_are_safe_and_so_is_what_is_missing(tmp_path: Path) -> None:
    assert weak_step(tmp_path) is None
    assert weak_step(tmp_path / "none" / "either") is None


@pytest.mark.parametrize("mode", [0o777, 0o707, 0o772])
def test_others_may_write_above(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "open"
    (folder / "below").mkdir(parents=True)
    folder.chmod(mode)
    assert weak_step(folder / "below") == f"other users may write to '{folder}' (mode {mode:o})"
    folder.chmod(0o1777)
    assert weak_step(folder / "below") is None, "with the sticky bit they cannot rename"


def test_a_group_may_write_if_it_is_the_users_own(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    info = os.lstat(tmp_path)
    assert _weakness("x", _changed(info, os.geteuid())) is None
    problem = "other users may write to 'x' (mode 770)"
    assert _weakness("x", _changed(info, os.geteuid() + 1)) == problem


def _changed(info: os.stat_result, group: int) -> os.stat_result:
    return os.stat_result([group if i == 5 else value for i, value in enumerate(info)])


def test_a_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    give_away(folder, monkeypatch)
    reason = weak_step(folder / "below")
    assert reason is not None and reason.endswith("belongs to another user")


def test_links_are_followed_and_both_ways_are_checked(tmp_path: Path) -> None:
    (tmp_path / "safe").mkdir()
    (tmp_path / "open" / "real").mkdir(parents=True)
    (tmp_path / "safe" / "link").symlink_to("../open/real")
    (tmp_path / "open" / "back").symlink_to(tmp_path / "safe")
    assert weak_step(tmp_path / "safe" / "link") is None
    (tmp_path / "open").chmod(0o777)
    problem = f"other users may write to '{tmp_path / 'open'}' (mode 777)"
    assert weak_step(tmp_path / "safe" / "link") == problem, "the target can be exchanged"
    assert weak_step(tmp_path / "open" / "back") == problem, "the link can be exchanged"
    assert weak_step(tmp_path / "safe") is None


def test_a_link_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    give_away(tmp_path / "link", monkeypatch)
    reason = weak_step(tmp_path / "link")
    assert reason is not None and reason.endswith("belongs to another user")


def test_a_loop_of_links_and_a_file_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert weak_step(tmp_path / "loop" / "x") == f"'{tmp_path / 'loop'}' is a loop of links"
    (tmp_path / "file").write_text("")
    below = tmp_path / "file" / "x"
    assert weak_step(below) == f"'{below}' cannot be read (Not a directory)"


def test_only_regular_files_of_the_user_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "file", opener=own_file) as stream:
        assert stream.read() == "mine"
    with pytest.raises(OSError, match="it is a symbolic link"):
        own_file(str(tmp_path / "link"), os.O_RDONLY)
    with pytest.raises(OSError, match="it is not a regular file of this user"):
        own_file(str(tmp_path / "pipe"), os.O_RDONLY)
    give_away(tmp_path / "file", monkeypatch)
    with pytest.raises(OSError, match="it is not a regular file of this user"):
        own_file(str(tmp_path / "file"), os.O_RDONLY)
