"""Figures of native libraries: code size, time to load, overhead of a call, speed beside the same code in Python.

    python -m graphc.bench.deploy

prints a row for each model, measured on this machine in interleaved rounds. ONNX Runtime's time to make a session from
the same file stands beside the time to load. The overhead of a call is that of a C program with an empty model.
"""

from __future__ import annotations

import ctypes
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..driver.compiler import compile as compile_model
from ..driver.export import export
from ..runtime.executor import CompiledModel
from .cases import Case
from .measure import interleave
from .networks import TRANSFORMERS
from .suites import mlp

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
        for (int i = 0; i < 1000000; i++) status |= empty_run(&inputs, &outputs, NULL, NULL, x, NULL);
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


def measured(case: Case) -> dict[str, str]:
    """Return the figures of a model, by their names."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = compile_model(case.model, threads=1, cache=False)
        export(model, folder / "weights/", prefix="m")
        code = (folder / "weights" / "m.so").stat().st_size
        export(model, folder / "m.so", prefix="m")
        loads = [_seconds_to_load(folder, number) for number in range(_LOADS)]
        arrays = case.arrays()
        library, own = _bound(folder / "m.so", model, arrays)
        times = interleave({"library": library, "python": own}, _ROUNDS, _SECONDS)
    ratio = times["python"].median / times["library"].median
    return {
        "code": f"{code / 1000:.0f} KB",
        "load": f"{statistics.median(loads) * 1e3:.2f} ms",
        "session of ONNX Runtime": _session_seconds(case),
        "speed beside Python": f"{ratio:.3f}",
    }


def call_overhead() -> str:
    """Return the time of a call of a model that copies one element, in a C program."""
    if shutil.which("cc") is None:
        return "no C compiler"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export(_empty(), folder / "empty.a", prefix="empty", threads=1, cache=False)
        (folder / "calls.c").write_text(_CALLS)
        words = ["cc", "-O2", "calls.c", "empty.a", "-o", "calls"]
        subprocess.run(words, cwd=folder, check=True)
        done = subprocess.run([folder / "calls"], capture_output=True, text=True, check=True)
    return f"{float(done.stdout):.0f} ns"


def _empty() -> Any:
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "empty",
        [value("x", TensorProto.FLOAT, [1])], [value("y", TensorProto.FLOAT, [1])],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _seconds_to_load(folder: Path, number: int) -> float:
    """A copy, as the system loads a file once."""
    path = folder / f"copy{number}.so"
    shutil.copy(folder / "m.so", path)
    begin = time.perf_counter()
    ctypes.CDLL(str(path))
    return time.perf_counter() - begin


def _session_seconds(case: Case) -> str:
    try:
        import onnxruntime
    except ImportError:
        return "not installed"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    begin = time.perf_counter()
    onnxruntime.InferenceSession(case.model, options)
    return f"{(time.perf_counter() - begin) * 1e3:.0f} ms"


def _bound(
    path: Path, model: CompiledModel, arrays: dict[str, Any]
) -> tuple[Callable[[], object], Callable[[], object]]:
    """The library's and the model's call on the same inputs."""
    library = ctypes.CDLL(str(path))
    library.m_arena_bytes.restype = ctypes.c_int64
    arena = np.zeros(library.m_arena_bytes(None) + 64, np.uint8)
    results, own = model.allocate(arrays), model.allocate(arrays)
    sources = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays.values()))
    targets = (ctypes.c_void_p * len(results))(*(array.ctypes.data for array in results))
    at = ctypes.c_void_p(arena.ctypes.data + -arena.ctypes.data % 64)
    arguments = (
        *(ctypes.cast(a, ctypes.c_void_p) for a in (sources, targets)),
        None,
        None,
        at,
        None,
    )

    call = partial(library.m_run, *arguments)
    call.kept = (arena, results, sources, targets)  # type: ignore[attr-defined]
    return call, model.bind(arrays, own)


def main() -> None:
    """Print the figures."""
    for case in cases():
        for name, value in measured(case).items():
            print(f"{case.name:<12} {name:<24} {value}")
    print(f"{'empty model':<12} {'call from C':<24} {call_overhead()}")


if __name__ == "__main__":
    main()
