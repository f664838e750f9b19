"""Errors about files that the system refuses: the file, the system's reason and the remedy."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from .errors import UserError
from .suggestion import suggestion

_MAX_NEIGHBORS = 1000  # names in a folder that a missing one is compared with
_LIKE = 0.8  # names of files share their suffixes
_OTHER = "give another path"
_UNWRITABLE = {
    errno.ENOENT: "make its folder first, or give another path",
    errno.EISDIR: "give the name of a file",
    errno.EACCES: "give a path that you may write to",
    errno.EPERM: "give a path that you may write to",
    errno.EROFS: "give a path that you may write to",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ENOSPC: "make room on the device, or give a path on another",
    errno.ENXIO: "start what reads the pipe first, or give the name of a file",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f), or give a path on another device",
    errno.EDQUOT: "make room on the device, or give a path on another",
}
_UNREADABLE = {
    errno.EISDIR: "give a file in it",
    errno.EACCES: "ask its owner for permission to read it",
    errno.EPERM: "make it a file that only you may write to (chmod 600)",
    errno.ELOOP: "give the file itself",
    errno.EIO: "copy it again from where it came",
}


def unwritable(path: str | os.PathLike[str], error: OSError, who: str = "") -> UserError:
    """Return the error for a file or folder that cannot be written. `who`: the argument or step that names it."""
    remedy = _UNWRITABLE.get(error.errno or 0, _OTHER)
    return UserError(f"{_begin(who)}cannot write '{path}' ({_reason(error)}); {remedy}")


def unreadable(
    path: str | os.PathLike[str], error: Exception, who: str = "", missing: str = ""
) -> UserError:
    """Return the error for a file that cannot be read. `missing`: the remedy if the file does not exist."""
    if isinstance(error, FileNotFoundError):
        return UserError(f"{_begin(who)}there is no file '{path}'; {missing or _neighbor(path)}")
    known = _UNREADABLE.get(getattr(error, "errno", None) or 0, _OTHER)
    return UserError(f"{_begin(who)}cannot read '{path}' ({_reason(error)}); {known}")


def _begin(who: str) -> str:
    return f"{who}: " if who else ""


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _neighbor(path: str | os.PathLike[str]) -> str:
    """Return a suggestion for a misspelled path, from the names in its folder."""
    target = Path(path)
    try:
        with os.scandir(target.parent) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_MAX_NEIGHBORS), strict=False)]
    except OSError:
        return f"check the path: its folder '{target.parent}' cannot be opened either"
    return suggestion(target.name, sorted(names), _LIKE) or "check its name and its folder"
