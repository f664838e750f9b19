"""The respect of engines for the machine: rates where CPUs are limited or shared, CPU time when idle, private memory.

Models run in other processes: this module is their program. Each figure compares two rates of calls in the same seconds
or in interleaved rounds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..base.records import dataclass
from .cases import Case
from .networks.net import Net

ROUNDS, SECONDS, IDLE_SECONDS = 5, 2.0, 2.0
TINY = "tiny.onnx"


@dataclass(frozen=True)
class Shares:
    """The figures of one engine, each None where the system does not permit the measurement.

    Args:
        limited: rate in a control group of 1 CPU over the rate on one pinned core, both with the default threads.
        oversubscribed: rate of two processes with two threads each, together, over that of one.
        idle: CPU time after a run over time.
        private_mb: memory that a second process of the model does not share, above that of a process with a tiny model.
        beyond_arena_mb: the same without the scratch memory of a run, for engines that tell its size.
    """

    limited: float | None
    oversubscribed: float
    idle: float
    private_mb: float
    beyond_arena_mb: float | None = None


def shares(engine: str, case: Case) -> Shares:
    """Measure an engine on a model, for about a minute."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(case.onnx())
        (Path(folder) / TINY).write_bytes(tiny_model())
        start = partial(_Worker, engine, path, {**os.environ, "GRAPHC_CACHE_DIR": folder})
        with start(1) as first:  # leaves the model in the cache
            first.run()
        rounds = [_round(start) for _ in range(ROUNDS)]
        idle, private, beyond_arena = _at_rest(start)
    limited = [one for one, _ in rounds if one is not None]
    return Shares(
        statistics.median(limited) if limited else None,
        statistics.median(two for _, two in rounds),
        idle,
        private,
        beyond_arena,
    )


def _round(start: Callable[..., _Worker]) -> tuple[float | None, float]:
    """The two ratios of rates."""
    with start(0, _pin) as pinned:
        rate = pinned.run()
    with one_cpu_group() as join, ExitStack() as stack:
        limited = stack.enter_context(start(0, join)).run() / rate if join else None
    with start(2) as alone:
        rate = alone.run()
    with start(2) as first, start(2) as second:
        for worker in (first, second):
            worker.begin()
        return limited, (first.rate() + second.rate()) / rate


def _at_rest(start: Callable[..., _Worker]) -> tuple[float, float, float | None]:
    with start(2) as first, start(2) as second:
        for worker in (first, second):
            worker.run()
        return first.idle(), *second.private_megabytes()


def _pin() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


@contextmanager
def one_cpu_group() -> Any:
    """Make a control group of one CPU; yield the function by which a process joins it, or None if that is denied."""
    root = Path("/sys/fs/cgroup")
    is_v2 = (root / "cgroup.controllers").exists()
    folder = (root if is_v2 else root / "cpu") / f"graphc-{os.getpid()}"
    limits = {"cpu.max": "100000 100000"}
    if not is_v2:
        limits = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "100000"}
    try:
        folder.mkdir()
        for name, value in limits.items():
            (folder / name).write_text(value)
    except OSError:
        yield None
        return
    try:
        yield lambda: (folder / "cgroup.procs").write_text(str(os.getpid()))
    finally:
        folder.rmdir()


class _Worker:
    """A process that runs a model when told to. `threads`: 0 for the engine's default."""

    def __init__(
        self, engine: str, path: Path, env: Mapping[str, str], threads: int, begin: Any = None
    ) -> None:
        words = [sys.executable, "-m", "graphc.bench.sharing"]
        words += map(str, (engine, path, threads, SECONDS))
        self._process = subprocess.Popen(
            words, env=env, preexec_fn=begin, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )  # fmt: skip
        self._before = int(self._read())
        self._arena = int(self._read())

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def begin(self) -> None:
        """Let it run."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def rate(self) -> float:
        """Return the calls per second of the run that began."""
        return float(self._read())

    def run(self) -> float:
        """Return the calls per second of one run."""
        self.begin()
        return self.rate()

    def idle(self) -> float:
        """Return the share of one CPU that it takes without work."""
        before = self._cpu_seconds()
        time.sleep(IDLE_SECONDS)
        return (self._cpu_seconds() - before) / IDLE_SECONDS

    def private_megabytes(self) -> tuple[float, float | None]:
        """Return the memory that it shares with no other process, less what it had with the tiny model.

        Without its arena too, if that is known.
        """
        size = private_bytes(self._process.pid) - self._before
        return size / 1e6, (size - self._arena) / 1e6 if self._arena else None

    def _cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def private_bytes(process: int) -> int:
    """Return the bytes that only this process maps, written or not."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    rows = [line.split() for line in text.splitlines() if line.startswith("Private_")]
    return sum(int(row[1]) << 10 for row in rows)


def work(engine: str, path: str, threads: int, seconds: float) -> None:
    """Say that the model is loaded; for each line of the input, run it for a while and print the calls per second."""
    load = ENGINES[engine]
    load(str(Path(path).with_name(TINY)), threads)()
    print(private_bytes(os.getpid()), flush=True)
    call = load(path, threads)
    call()
    print(getattr(call, "arena_bytes", 0), flush=True)
    for _ in sys.stdin:
        count, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            call()
            count += 1
        print(count / (time.perf_counter() - begin), flush=True)


def _ones(path: str) -> dict[str, Any]:
    """Return an array of ones for each input of an ONNX file."""
    from onnx import helper, load

    found = {}
    for value in load(path, load_external_data=False).graph.input:
        kind = value.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        found[value.name] = np.ones(shape, helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return found


def _graphc(path: str, threads: int) -> Callable[[], object]:
    from ..driver.compiler import compile as compile_model

    model, arrays = compile_model(path, threads=threads or None), _ones(path)
    call = model.bind(arrays, model.allocate(arrays))
    call.arena_bytes = model.artifact.metadata.arena_bytes  # type: ignore[attr-defined]
    return call


def _onnxruntime(path: str, threads: int) -> Callable[[], object]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session, arrays = onnxruntime.InferenceSession(path, options), _ones(path)
    return lambda: session.run(None, arrays)


def _iree(path: str, threads: int) -> Callable[[], object]:
    from .iree_modules import IreeModule, module_of

    bound: Callable[[], object] = IreeModule(module_of(path), threads).bound(_ones(path))
    return bound


def tiny_model() -> bytes:
    """Return an ONNX model of one element."""
    net = Net.of_rows("tiny", 1)
    net.result = net.relu("x")
    return net.case().onnx()


ENGINES: Mapping[str, Callable[[str, int], Callable[[], object]]] = {
    "graphc": _graphc, "onnxruntime": _onnxruntime, "iree": _iree,
}  # fmt: skip
"""Functions that load a model for a number of threads, and return its call."""


if __name__ == "__main__":
    engine, path, threads, seconds = sys.argv[1:]
    work(engine, path, int(threads), float(seconds))
