"""The memory limit of this process: the minimum of physical memory, control group and address-space limit."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .errors import UserError
from .records import dataclass

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_CGROUPS = Path("/sys/fs/cgroup")
_OWN_GROUP = Path("/proc/self/cgroup")


@dataclass(frozen=True)
class MemoryLimit:
    """A number of bytes, and what sets it."""

    size_bytes: int
    source: str


def memory_limit() -> MemoryLimit | None:
    """The tightest limit of this process; None if the system reports none."""
    found = [*_machine(), *_address_limit(), *_group_limits(_CGROUPS, _OWN_GROUP)]
    return min(found, key=lambda limit: limit.size_bytes, default=None)


def parse_memory(text: str, who: str = "--max-memory") -> MemoryLimit:
    """A size such as `512M`, `16G` or a number of bytes. Raise UserError for any other text."""
    number, unit = text.strip().upper().removesuffix("B").removesuffix("I"), ""
    if number and number[-1] in _UNITS:
        number, unit = number[:-1], number[-1]
    if not (number.isascii() and number.isdigit()) or len(number) > 18:
        raise UserError(f"{who} must be a size like 512M or 16G, got '{text}'")
    return MemoryLimit(int(number) * _UNITS[unit], who)


def shown_bytes(count: float) -> str:
    """A size in the unit that suits it: `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"


def _machine() -> list[MemoryLimit]:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        return []
    return [MemoryLimit(size, "the memory of this machine")] if size > 0 else []


def _address_limit() -> list[MemoryLimit]:
    if sys.platform == "win32":
        return []
    import resource  # the standard library of this system only

    size, _ = resource.getrlimit(resource.RLIMIT_AS)
    if size == resource.RLIM_INFINITY:
        return []
    return [MemoryLimit(size, "the address limit of this process (ulimit -v)")]


def _group_limits(root: Path, own: Path) -> list[MemoryLimit]:
    """The limits of the control groups this process is in, of version 2 and 1."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return []
    files = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers not in ("", "memory"):
            continue
        folder, name = (
            (root / "memory", "memory.limit_in_bytes") if controllers else (root, "memory.max")
        )
        group = folder / path.lstrip("/")
        files += [
            parent / name
            for parent in (group, *group.parents)
            if folder in (parent, *parent.parents)
        ]
    found = []
    for file in files:
        try:
            found.append(int(file.read_text()))
        except (OSError, ValueError):  # no such group, or no limit: "max"
            continue
    return [MemoryLimit(size, "the memory limit of its control group") for size in found]
