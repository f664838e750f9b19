"""Pipes given as files: read if something writes to them, and never waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphc.base.pipes import read_file
from support.process import ROOT, run_cli

MODEL = str(ROOT / "examples" / "mlp.onnx")


def test_what_is_written_to_a_pipe_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    reader, writer = os.pipe()
    os.write(writer, b"text")
    os.close(writer)
    assert read_file(tmp_path / "file") == read_file(f"/dev/fd/{reader}") == b"text"
    os.close(reader)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compile", MODEL, "--run", "--input", "x=@pipe"), "'pipe' is not a .npy file"),
        (("compile", MODEL, "-o", "pipe", "--emit", "llvm"), "cannot write 'pipe'"),
        (("dev", "fuzz", "--resume", "pipe", "--count", "1"), "'pipe' is not a file of"),
    ],
)
def test_a_pipe_without_another_end_is_refused(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = run_cli(*words, cwd=tmp_path, timeout=60)
    assert done.returncode == 2 and message in done.stderr, done.stderr
