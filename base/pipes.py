"""Files that may be pipes, opened without waiting for the other end."""

from __future__ import annotations

import os


def without_waiting(path: str, flags: int) -> int:
    """Open a file, as an opener of `open`.

    Of a pipe that nobody writes to, the first read finds the end; raise OSError (ENXIO) where nobody reads what is
    written.
    """
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(handle, True)
    return handle


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Return the contents of a file or a pipe. Raise OSError if the system refuses it."""
    with open(path, "rb", opener=without_waiting) as file:
        return file.read()
