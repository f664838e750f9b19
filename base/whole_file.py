"""Files written whole or not at all: a full disk, a killed process or a second writer never leaves half of one."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from .file_errors import unwritable
from .on_demand import OFFERED
from .pipes import without_waiting
from .source_files import check_not_source

TEMPORARY_FILES = ".graphc-*.tmp"
"""Names of temporary files being written; an old one was left by a process that was killed."""


@contextmanager
def whole_file(
    path: str | os.PathLike[str], durable: bool = False, private: bool = False
) -> Iterator[IO[bytes]]:
    """A stream whose bytes become the file at `path` when the block ends; if it ends with an error, no file is written.

    `durable`: flush them to disk first. `private`: only the user may read and write the file. A symbolic link is
    replaced, not followed. Pipes, devices and open files such as /dev/stdout are written directly. Raise OSError if
    the system refuses the file, or nobody reads the pipe. Raise UserError if the file is one that the running command
    reads, or a model or other known file and what is written is of another kind.
    """
    if _is_written_directly(path):
        with open(path, "wb", opener=without_waiting) as stream:
            yield stream
        return
    check_not_source(path)
    temporary = Path(path).parent / TEMPORARY_FILES.replace("*", secrets.token_hex(8))
    try:
        with open(temporary, "xb", opener=_private if private else None) as stream:
            yield stream
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        if not private and os.path.lexists(path):
            OFFERED["check_replaced"](Path(path), temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(Path(path).parent)


def write_file(
    path: str | os.PathLike[str],
    content: str | bytes | Iterable[bytes | bytearray | memoryview],
    who: str = "",
) -> None:
    """Write a text as UTF-8, bytes, or the parts of a file as a whole file. Raise UserError if the system refuses it.

    `who`: the argument or step that names the file.
    """
    if isinstance(content, str):
        content = content.encode(errors="backslashreplace")  # names may be of any bytes
    try:
        with whole_file(path) as stream:
            stream.writelines([content] if isinstance(content, bytes) else content)
    except OSError as error:
        raise unwritable(path, error, who) from error


def write_array(path: str | os.PathLike[str], array: np.ndarray) -> None:
    """Write an array as a `.npy` file. Raise UserError if the system refuses it."""
    try:
        with whole_file(path) as stream:
            np.save(_Plain(stream), array, allow_pickle=False)
    except OSError as error:
        raise unwritable(path, error) from error


class _Plain:
    """A stream that NumPy does not take for a file: its errors for files lack the reason of the system."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.write = stream.write


def make_folder(path: str | os.PathLike[str]) -> None:
    """Make a folder, and those above it, unless there is one. Raise UserError if the system refuses it."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error


_OPEN_FILES = re.compile(r"/dev/(fd/\d+|std(out|err))|/proc/(self|\d+)/fd/\d+")


def _is_written_directly(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is that of an open file, a pipe or a device. Raise OSError for a folder."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return not stat.S_ISREG(mode) or bool(_OPEN_FILES.fullmatch(os.path.abspath(path)))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
