"""Files written whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from graphc import UserError
from graphc.base.whole_file import TEMPORARY_FILES, whole_file, write_array, write_file
from support.process import ROOT, run_python


def test_the_new_file_replaces_the_old_one_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with whole_file(path, durable=True) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_error_leaves_what_was_there(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a.txt"
    for expected in ([], ["a.txt"]):
        with pytest.raises(type(error)), whole_file(path) as stream:
            stream.write(b"half")
            raise error
        assert os.listdir(tmp_path) == expected
        path.write_text("old")


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_replaced_not_followed(exists: bool, tmp_path: Path) -> None:
    link, other = tmp_path / "link", tmp_path / "a.txt"
    link.symlink_to(other)
    if exists:
        other.write_text("old")
    with whole_file(link) as stream:
        stream.write(b"new")
    assert not link.is_symlink() and link.read_text() == "new"
    assert other.exists() == exists and (not exists or other.read_text() == "old")
    assert not list(tmp_path.glob(TEMPORARY_FILES))


def test_a_folder_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    for name in ("folder", "link"):
        with pytest.raises(
            UserError, match=r"cannot write .* \(Is a directory\); give the name of"
        ):
            write_file(tmp_path / name, "text")
    assert (tmp_path / "link").is_symlink()


def test_a_pipe_that_nobody_reads_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match="start what reads the pipe first"):
        write_file(pipe, b"text", "--output")


def test_open_files_are_written_to_by_their_names_in_dev(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as stream:
        write_file(f"/dev/fd/{stream.fileno()}", "text")
    assert (tmp_path / "out").read_text() == "text"
    code = "from graphc.base import whole_file as f; f.write_file('/dev/stdout', 'text')"
    assert run_python("-c", code).stdout == "text"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has this full device")
def test_a_full_disk_is_its_reason() -> None:
    for write in (write_array, lambda path, array: write_file(path, array.tobytes())):
        with pytest.raises(
            UserError, match=r"\(No space left on device\); make room on the device"
        ):
            write("/dev/full", np.zeros(1 << 16))


def test_texts_may_hold_names_of_any_bytes(tmp_path: Path) -> None:
    write_file(tmp_path / "a", os.fsdecode(b"\xff"))
    assert (tmp_path / "a").read_bytes() == b"\\udcff"


def test_arrays_and_parts_are_whole_files(tmp_path: Path) -> None:
    write_array(tmp_path / "a.npy", np.arange(3))
    assert np.load(tmp_path / "a.npy").tolist() == [0, 1, 2]
    write_file(tmp_path / "b", [b"1", memoryview(b"2")])
    assert (tmp_path / "b").read_bytes() == b"12" and len(os.listdir(tmp_path)) == 2


def test_a_pipe_is_written_to_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with whole_file(pipe) as stream:
        stream.write(b"text")
    assert os.read(reader, 9) == b"text"
    os.close(reader)


def test_a_command_that_cannot_write_leaves_no_half_file(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk."""
    output = tmp_path / "mlp.onnx"
    # -B: Python does not notice that the limit cuts its bytecode short, and would leave half a file for all others.
    convert = f"{sys.executable} -B -m graphc convert {ROOT / 'examples' / 'mlp.onnx'} -o {output}"
    command = f"ulimit -f 4; {convert}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done
    assert "(File too large)" in done.stderr
    assert os.listdir(tmp_path) == []
