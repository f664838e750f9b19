"""Asks the system for two-dimensional registers, whose contents threads save only on request.

Without the permission the first instruction that touches such a register ends the process. The permission holds for
the process, threads that run already and forked children, not for programs that it executes. Linux refuses it where a
thread has a signal stack that is too small, and in some containers.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import threading

from ..targets.isa import TILE_ACCESS

_LOG = logging.getLogger("graphc.runtime")
_LOCK = threading.Lock()
_answers: list[bool] = []


def tiles_permitted() -> bool:
    """Return whether this process may use two-dimensional registers; the system decides once."""
    with _LOCK:
        if not _answers:
            error = request_tiles()
            if error:
                _LOG.warning(
                    "the system refuses tile registers (%s): models run on vectors",
                    os.strerror(error),
                )
            _answers.append(not error)
        return _answers[0]


def request_tiles() -> int:
    """Ask the system for the permission; return 0, or the number of the error."""
    if not sys.platform.startswith("linux"):
        return 38  # ENOSYS
    library = ctypes.CDLL(None, use_errno=True)
    refused = any(library.syscall(*access.request) for access in TILE_ACCESS)
    return ctypes.get_errno() if refused else 0
