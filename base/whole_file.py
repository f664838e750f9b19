"""Files written whole or not at all: a full disk, a killed process or a second writer never leaves half of one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

TEMPORARY_FILES = ".graphc-*.tmp"
"""Names of temporary files being written; an old one was left by a process that was killed."""


@contextmanager
def whole_file(
    path: str | os.PathLike[str], durable: bool = False, private: bool = False
) -> Iterator[IO[bytes]]:
    """A stream whose bytes become the file at `path` when the block ends; if it ends with an error, no file is written.

    `durable`: flush them to disk first. `private`: only the user may read and write the file. A path that is not a
    regular file, such as a pipe or /dev/stdout, is written directly. Raise OSError if the system refuses the file.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with open(target, "wb") as stream:
            yield stream
        return
    temporary = target.parent / TEMPORARY_FILES.replace("*", secrets.token_hex(8))
    try:
        with open(temporary, "xb", opener=_private if private else None) as stream:
            yield stream
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(target.parent)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
