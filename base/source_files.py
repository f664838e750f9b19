"""Files that the running command reads: its outputs must not replace them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .errors import UserError

_SOURCES: ContextVar[list[str] | None] = ContextVar("sources", default=None)
"""Paths of the files that a command has read; None outside commands, where a program may replace what it has read."""


@contextmanager
def keep_sources() -> Iterator[None]:
    """Refuse, while the block runs, outputs that would replace a file given to `note_source` in it."""
    token = _SOURCES.set([])
    try:
        yield
    finally:
        _SOURCES.reset(token)


def note_source(path: str | os.PathLike[str]) -> None:
    """Note that a file is read."""
    if (sources := _SOURCES.get()) is not None:
        sources.append(os.path.abspath(path))


def check_not_source(path: str | os.PathLike[str]) -> None:
    """Raise UserError if an output would replace a file that the command reads, by whatever name."""
    for source in _SOURCES.get() or ():
        try:
            same = os.path.isfile(path) and os.path.samefile(path, source)
        except (OSError, ValueError):  # one of them does not exist
            continue
        if same:
            raise UserError(
                f"the output '{os.fspath(path)}' must not replace a file that the command reads; give another path"
            )
