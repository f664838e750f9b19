"""The number of threads, and the native thread pools of this process."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from ..base.errors import InternalError, UserError
from . import abi
from .abi import MAX_THREADS as MAX_THREADS
from .loader import LoadedCode


def resolve_threads(
    threads: int | None, environ: Mapping[str, str] = os.environ, available: int | None = None
) -> int:
    """Return the number of threads to run with.

    The first of: `threads`, GRAPHC_NUM_THREADS, OMP_NUM_THREADS, the CPUs this process may use (`available`, for
    tests). Raise UserError if `threads` or GRAPHC_NUM_THREADS is not a number from 1 to `MAX_THREADS`; OMP_NUM_THREADS,
    which other programs define, is used if it starts with such a number and ignored otherwise.
    """
    if threads is not None:
        return _checked("threads", threads)
    own = environ.get("GRAPHC_NUM_THREADS", "").strip()
    if own:
        return _checked("GRAPHC_NUM_THREADS", int(own) if own.isdecimal() else own)
    # A list sets one number per level of nesting.
    openmp = environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if openmp.isdecimal() and 1 <= int(openmp) <= MAX_THREADS:
        return int(openmp)
    return min(available_cpus() if available is None else available, MAX_THREADS)


def _checked(who: str, value: object) -> int:
    if type(value) is not int or not 1 <= value <= MAX_THREADS:
        raise UserError(f"{who} must be an integer from 1 to {MAX_THREADS}, got {value!r}")
    return value


def available_cpus() -> int:
    """Return how many CPUs this process may use: the affinity mask, cut down to the cgroup's quota, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    quota = _own_quota()
    # Rounded down: the scheduler throttles a pool larger than its quota for the rest of every period.
    return allowed if quota is None else max(1, min(allowed, int(quota)))


@cache
def _own_quota() -> float | None:
    """Read once per process: every compilation asks twice."""
    return cgroup_cpus()


def cgroup_cpus(root: Path = Path("/")) -> float | None:
    """Return the CPU quota of this process's control groups in CPUs, None without one. `root` is `/` except for
    tests."""
    quotas = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if not controllers:
            quotas += _walk(root / "sys/fs/cgroup", group, _quota_v2)
        elif "cpu" in controllers.split(","):
            quotas += _walk(root / "sys/fs/cgroup/cpu", group, _quota_v1)
    return min(quotas, default=None)


def _walk(mount: Path, group: str, quota: Callable[[Path], float | None]) -> list[float]:
    """Return the quotas of a group and all above it: the smallest one binds."""
    parts = [p for p in group.split("/") if p not in ("", "..")]
    folders = [mount.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]
    return [value for folder in folders if (value := quota(folder)) is not None]


def _quota_v2(folder: Path) -> float | None:
    return _ratio(_read(folder / "cpu.max").split())


def _quota_v1(folder: Path) -> float | None:
    return _ratio(
        _read(folder / "cpu.cfs_quota_us").split() + _read(folder / "cpu.cfs_period_us").split()
    )


def _ratio(words: list[str]) -> float | None:
    # "max" and -1 mean no limit.
    if len(words) != 2 or not all(word.isdecimal() and int(word) > 0 for word in words):
        return None
    return int(words[0]) / int(words[1])


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


class ThreadPool:
    """A native pool of `threads` threads including the caller. `address` is the `rt` argument of `graphc_entry`.

    Workers start with the first parallel loop. Pools of a process are shared by all its models: see `shared_pool`.
    """

    def __init__(self, threads: int, support_code: bytes) -> None:
        self.threads = threads
        self._code = LoadedCode(support_code)
        create = abi.PoolCreateFunction(self._code.address(abi.POOL_CREATE_NAME))
        self._destroy = abi.PoolDestroyFunction(self._code.address(abi.POOL_DESTROY_NAME))
        address = create(threads)
        if not address:
            raise InternalError(f"no memory for a pool of {threads} threads")
        self.address: int = address

    def keep_forever(self) -> None:
        """Let the workers live until the process ends."""
        self._code.keep_forever()

    def close(self) -> None:
        """Stop the workers and free the pool; no loop may be running on it. May be called again."""
        if self.address:
            self._destroy(self.address)
            self.address = 0


_pools: dict[tuple[int, str], ThreadPool] = {}


def shared_pool(threads: int, support_code: bytes) -> ThreadPool | None:
    """Return this process's pool for a thread count and a support object; None when loops are to run serially.

    Pools live until the process ends: a worker may be running in any of them.
    """
    if threads < 2 or not support_code:
        return None
    key = (threads, hashlib.sha256(support_code).hexdigest())
    pool = _pools.get(key)
    if pool is None:
        # No lock: a fork could leave it held in the child forever. Of two threads that get here at once, one sets the
        # entry; the other's pool has no workers yet and is dropped.
        made = ThreadPool(threads, support_code)
        pool = _pools.setdefault(key, made)
        if pool is made:
            pool.keep_forever()
        else:
            made.close()
    return pool
