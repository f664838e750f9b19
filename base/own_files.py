"""Files and folders that only the user of this process, and root, can change: code may be loaded from them."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_MAX_LINKS = 40
"""Symbolic links on the way to a folder, as in Linux; more are a loop."""


def weak_step(folder: Path) -> str | None:
    """The first reason why other users could exchange what is at `folder`; None if none of them can.

    Every folder from the root on, also on the way that symbolic links take, must belong to the user or to root, and
    others must not write to it, as ssh's StrictModes asks. In one with the sticky bit (as /tmp) they may: they cannot
    rename there what is not theirs. A group may write if it has the number of the user, as the user's own group has.
    Links must belong to the same owners. What does not exist yet is safe.
    """
    if os.name != "posix":
        return None
    root, *names = folder.absolute().parts
    at, pending, links = root, names[::-1], 0
    while True:
        try:
            info = os.lstat(at)
            target = os.readlink(at) if stat.S_ISLNK(info.st_mode) else None
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"'{at}' cannot be read ({error.strerror})"
        reason = _weakness(at, info)
        if reason is not None:
            return reason
        if target is not None:
            links += 1
            if links > _MAX_LINKS:
                return f"'{at}' is a loop of links"
            pending += reversed(target.rstrip("/").split("/"))
            at = root if target.startswith("/") else os.path.dirname(at)
        if not pending:
            return None
        name = pending.pop()
        at = os.path.dirname(at) if name == ".." else os.path.join(at, name).rstrip("/") or root


def _weakness(at: str, info: os.stat_result) -> str | None:
    if info.st_uid not in (0, os.geteuid()):
        return f"'{at}' belongs to another user"
    if stat.S_ISLNK(info.st_mode) or info.st_mode & stat.S_ISVTX or not _others_write(info):
        return None
    return f"other users may write to '{at}' (mode {stat.S_IMODE(info.st_mode):o})"


def _others_write(info: os.stat_result) -> bool:
    own_group = info.st_gid == os.geteuid()
    return bool(info.st_mode & (stat.S_IWOTH if own_group else stat.S_IWOTH | stat.S_IWGRP))


def own_file(path: str, flags: int) -> int:
    """An opener for `open`: a regular file that only this user may write to, no link to one. Raise OSError for all
    else."""
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link") from error
        raise
    info = os.fstat(handle)
    is_own = not hasattr(os, "geteuid") or info.st_uid == os.geteuid()
    reason = (
        "" if is_own and stat.S_ISREG(info.st_mode) else "it is not a regular file of this user"
    )
    if not reason and os.name == "posix" and _others_write(info):
        reason = f"other users may write to it, mode {stat.S_IMODE(info.st_mode):o}"
    if not reason:
        return handle
    os.close(handle)
    raise OSError(errno.EPERM, reason)
