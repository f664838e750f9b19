"""Files written whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from graphc.base.whole_file import TEMPORARY_FILES, whole_file
from support.process import ROOT


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


def test_a_link_keeps_pointing_to_the_file(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("a.txt")
    with whole_file(link) as stream:
        stream.write(b"new")
    assert link.is_symlink() and (tmp_path / "a.txt").read_text() == "new"
    assert not list(tmp_path.glob(TEMPORARY_FILES))


def test_a_pipe_is_written_to_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    with whole_file(pipe) as stream:
        stream.write(b"text")
    reader.join()
    assert found == [b"text"]


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
