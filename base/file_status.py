"""The status of a file, by which a change of its contents is seen without reading it."""

from __future__ import annotations

import os
import time

SETTLED_SECONDS = 2.0
"""Age from which a change changes the times too, whatever the resolution of the file system."""


def file_status(path: str | os.PathLike[str]) -> str:
    """Return device, inode, size and times of a file as one word. May raise OSError."""
    info = os.stat(path)
    numbers = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
    return "-".join(map(str, numbers))


def is_settled(path: str | os.PathLike[str]) -> bool:
    """Return whether a file was not changed just now, so that its status tells later changes. May raise OSError."""
    info = os.stat(path)
    return time.time() - max(info.st_mtime, info.st_ctime) > SETTLED_SECONDS
