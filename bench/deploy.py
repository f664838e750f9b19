"""Figures of deployed models: native libraries, memory, and the respect for a machine that is shared.

    python -m graphc.bench.deploy docs/records

measures them on this machine, with ONNX Runtime beside them where it has the same, and IREE where it is installed
(iree-base-compiler[onnx] and iree-base-runtime), and writes `deploy.json`. The overhead of a call is that of a C
program with a model of one element.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np

from ..base.records import dataclass
from ..base.version import __version__
from ..codegen.host import cpu_name
from ..driver.compiler import compile as compile_model
from ..driver.export import export
from . import iree_modules
from .cases import Case
from .library_call import library_call
from .measure import interleave
from .memory import COMPILE, GROWTH, OVERHEAD_MB, SESSION, peak_megabytes, write_model
from .networks import TRANSFORMERS
from .records import Cell, Column, Record
from .sharing import shares, tiny_model
from .suites import mlp

WEIGHTS_MB = 1024
_LOADS = 7
_ROUNDS, _SECONDS = 15, 3.0

_CALLS = """
#include "empty.h"
#include <stdio.h>
#include <time.h>
int main(void) {
    static float x[64] __attribute__((aligned(64))), y[64] __attribute__((aligned(64)));
    empty_inputs_t inputs = {x};
    empty_outputs_t outputs = {y};
    struct timespec begin, end;
    int32_t status = 0;
    for (int round = 0; round < 2; round++) {
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (int i = 0; i < 1000000; i++) status |= empty_run(&inputs, &outputs, NULL, NULL, x, sizeof x, NULL);
        clock_gettime(CLOCK_MONOTONIC, &end);
    }
    printf("%g", ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / 1e6);
    return status;
}
"""


def cases() -> list[Case]:
    """A small and a usual model."""
    transformer = replace(TRANSFORMERS["MiniLM s128"]().case(), name="MiniLM s128")
    return [mlp("MLP", 32, (13, 512, 256, 128)), transformer]


@dataclass(frozen=True)
class LibraryFigures:
    """A model as a native library: bytes of code, seconds to load it, and the time in Python over that of a call."""

    code: int
    load: float
    speed: float


def library_figures(case: Case) -> LibraryFigures:
    """Measure a model as a library, beside the same code in Python in interleaved rounds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = compile_model(case.model, threads=1, cache=False)
        export(model, folder / "weights/", prefix="m")
        code = (folder / "weights" / "m.so").stat().st_size
        export(model, folder / "m.so", prefix="m")
        loads = [_seconds_to_load(folder, number) for number in range(_LOADS)]
        arrays = case.arrays()
        results, own = model.allocate(arrays), model.bind(arrays, model.allocate(arrays))
        library = library_call(folder / "m.so", "m", [*arrays.values()], results)
        times = interleave({"library": library, "python": own}, _ROUNDS, _SECONDS)
    return LibraryFigures(
        code, statistics.median(loads), times["python"].median / times["library"].median
    )


def call_overhead() -> float | None:
    """Return the seconds of a call of a model that copies one element, in a C program; None without a C compiler."""
    if shutil.which("cc") is None:
        return None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export(tiny_model(), folder / "empty.a", prefix="empty", threads=1, cache=False)
        (folder / "calls.c").write_text(_CALLS)
        words = ["cc", "-O2", "calls.c", "empty.a", "-o", "calls"]
        subprocess.run(words, cwd=folder, check=True)
        done = subprocess.run([folder / "calls"], capture_output=True, text=True, check=True)
    return float(done.stdout) / 1e9


def seconds_to_load_many(count: int = 50) -> float:
    """Return the seconds in which a process loads libraries of different models."""
    with tempfile.TemporaryDirectory() as name:
        paths = [Path(name) / f"m{number}.so" for number in range(count)]
        for path in paths:
            export(tiny_model(), path, prefix=path.stem, threads=1, cache=False)
        begin = time.perf_counter()
        for path in paths:
            ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
        return time.perf_counter() - begin


def _seconds_to_load(folder: Path, number: int) -> float:
    """A copy, as the system loads a file once."""
    path = folder / f"copy{number}.so"
    shutil.copy(folder / "m.so", path)
    begin = time.perf_counter()
    ctypes.CDLL(str(path))
    return time.perf_counter() - begin


def _session_seconds(case: Case) -> float:
    """The median of several sessions of ONNX Runtime: the first one of a process takes longer."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return _median_seconds(lambda: onnxruntime.InferenceSession(case.onnx(), options))


def iree_seconds(case: Case) -> float | None:
    """Return the seconds in which IREE maps a compiled module; None without IREE.

    Raise RuntimeError if its results are others than ours.
    """
    if not iree_modules.is_installed():
        return None
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model.onnx"
        path.write_bytes(case.onnx())
        module, arrays = iree_modules.module_of(path), case.arrays()
        own = compile_model(case.model, threads=1).run(None, arrays)
        found = iree_modules.results(iree_modules.IreeModule(module, 1).bound(arrays)())
        if not all(
            np.allclose(*pair, rtol=1e-3, atol=1e-4) for pair in zip(found, own, strict=True)
        ):
            raise RuntimeError(f"IREE computes other results for {case.name}")
        return _median_seconds(lambda: iree_modules.IreeModule(module, 1))


def _median_seconds(action: Callable[[], object]) -> float:
    taken = []
    for _ in range(_LOADS):
        begin = time.perf_counter()
        action()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def rows() -> list[list[Cell]]:
    """Measure everything: a figure, its unit, ours, those of `PEERS`, and the limit."""
    found: list[list[Cell]] = []
    for case in cases():
        figures, iree = library_figures(case), iree_seconds(case)
        loads = [figures.load * 1e3, _session_seconds(case) * 1e3, iree and iree * 1e3]
        found += [
            [f"code of {case.name} without weights, KB", figures.code / 1e3, None, None, "100"],
            [f"time to load {case.name}, ms", *loads, "10"],
            [f"speed of {case.name} beside Python", figures.speed, None, None, "0.99"],
        ]
    overhead, many = call_overhead(), seconds_to_load_many()
    microseconds = overhead and overhead * 1e6
    found.append(["call from C of an empty model, us", microseconds, None, None, "1"])
    found.append(["time to load 50 libraries, ms", many * 1e3, None, None, None])
    return found + _memory_rows() + share_rows()


def share_rows() -> list[list[Cell]]:
    """Measure the respect of each engine for the machine, as rows of the table."""
    case = cases()[-1]
    ours, peer = shares("graphc", case), shares("onnxruntime", case)
    iree = shares("iree", case) if iree_modules.is_installed() else None
    return [
        [text, getattr(ours, key), getattr(peer, key), getattr(iree, key, None), limit]
        for key, (text, limit) in _SHARES.items()
    ]


_SHARES = {
    "limited": ("rate in a container of 1 CPU over that on one core", "0.97"),
    "oversubscribed": ("rate of two processes on the same CPUs over that of one", "0.9"),
    "idle": ("share of a CPU when idle", "0"),
    "private_mb": ("private memory of a second process, above a tiny model's, MB", None),
    "beyond_arena_mb": ("the same without the arena, MB", "2"),
}
"""The figures of `sharing.Shares`: what they are called here, and their limits."""

PEERS = {"onnxruntime": "ONNX Runtime", "iree-base-runtime": "IREE"}
"""Packages, and the headings of their columns."""


def _memory_rows() -> list[list[Cell]]:
    with tempfile.TemporaryDirectory() as name:
        path = str(write_model(Path(name), WEIGHTS_MB))
        ours = peak_megabytes(COMPILE, path, "no")
        peak_megabytes(COMPILE, path, "cache", cache=f"{name}/cache")
        loaded = peak_megabytes(COMPILE, path, "cache", cache=f"{name}/cache")
        peer = peak_megabytes(SESSION, path)
    limit = f"{GROWTH * WEIGHTS_MB + OVERHEAD_MB:.0f}"
    return [
        [f"peak memory, compile {WEIGHTS_MB} MB of weights, MB", ours, peer, None, limit],
        ["peak memory, load them from the cache, MB", loaded, peer, None, None],
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write the record to a folder, and print it."""
    parser = argparse.ArgumentParser(prog="python -m graphc.bench.deploy")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(arguments).folder
    names = ("graphc", *PEERS.values())
    columns = [Column("figure"), *(Column(name, ".4g") for name in names), Column("limit", "")]
    kept = {"graphc": __version__} | {
        package: metadata.version(package) for package in PEERS if _is_here(package)
    }
    date, command = datetime.date.today().isoformat(), "python -m graphc.bench.deploy docs/records"
    record = Record("deploy", "Deployed models", date, cpu_name(), kept, command, columns, rows())
    record.write(folder)
    print(record.markdown())


def _is_here(package: str) -> bool:
    return package == "onnxruntime" or iree_modules.is_installed()


if __name__ == "__main__":
    main()
