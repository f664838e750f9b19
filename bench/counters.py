"""Hardware counters of the calling thread by perf events, where the system has and permits them."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable
from pathlib import Path

from ..base.records import dataclass
from ..targets.isa import POOL_MACHINES

_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
EVENTS = {"cycles": (0, 0), "instructions": (0, 1), "cache misses": (0, 3), "branch misses": (0, 5)}
"""Types and numbers of linux/perf_event.h: PERF_TYPE_HARDWARE, PERF_COUNT_HW_*."""
_ATTR = struct.Struct("<IIQQQQQ")
_ATTR_BYTES = 64  # PERF_ATTR_SIZE_VER0
_USER_ONLY = 1 << 5 | 1 << 6  # exclude_kernel, exclude_hv


@dataclass(frozen=True)
class Counted:
    """Counts by event; or why there are none."""

    counts: dict[str, int]
    runs: int
    refused: str = ""


def count(run: Callable[[], object], runs: int) -> Counted:
    """Count what `runs` calls do in this thread. Not what other threads do for it."""
    number = POOL_MACHINES.get(platform.machine(), {}).get("PERF_EVENT")
    if number is None or not _PARANOID.exists():
        return Counted({}, runs, "this system has no perf events")
    libc = ctypes.CDLL(None, use_errno=True)
    files: dict[str, int] = {}
    try:
        for name, (kind, event) in EVENTS.items():
            attr = _ATTR.pack(kind, _ATTR_BYTES, event, 0, 0, 0, _USER_ONLY).ljust(
                _ATTR_BYTES, b"\0"
            )
            files[name] = libc.syscall(number, attr, 0, -1, -1, 0)
            if files[name] < 0:
                return Counted({}, runs, _reason(ctypes.get_errno()))
        before = {name: _read(file) for name, file in files.items()}
        for _ in range(runs):
            run()
        return Counted({name: _read(file) - before[name] for name, file in files.items()}, runs)
    finally:
        for file in files.values():
            if file >= 0:
                os.close(file)


def _read(file: int) -> int:
    (value,) = struct.unpack("<q", os.read(file, 8))
    return int(value)


def _reason(number: int) -> str:
    if number in (errno.EACCES, errno.EPERM):
        level = _PARANOID.read_text().strip()
        return f"the system does not permit hardware counters: {_PARANOID} is {level}, and must be at most 2"
    if number in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return "the processor shows no hardware counters here, as in most virtual machines"
    return f"hardware counters cannot be read: {os.strerror(number)}"
