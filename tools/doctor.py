"""Checks of an installation: a small model is compiled, run, compared and exported; lists packages beside graphc."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ..base.dtypes import F32
from ..base.errors import GraphcError
from ..base.records import dataclass
from ..bench.library_call import library_call
from ..codegen.host import target_for
from ..driver.compile_cache import default_cache
from ..driver.compiler import compile
from ..graph_ir.inspect.compare import difference
from ..graph_ir.ir.graph import Graph
from ..graph_ir.ir.logical_tensor import LogicalTensor
from ..runtime.executor import CompiledModel
from ..runtime.threadpool import available_cpus, resolve_threads
from ..shipping.export import export_library

_ROWS, _DEPTH, _COLUMNS = 96, 64, 128
PEERS = ("torch", "jax", "onnxruntime", "openvino", "skl2onnx", "tokenizers", "pnnx")
"""Packages that graphc reads models of, works with or is measured beside."""


@dataclass(frozen=True)
class Check:
    """One check: its name, whether it holds, and a sentence."""

    name: str
    ok: bool
    text: str


def checks() -> list[Check]:
    """Check the installation; a check that fails says why, and those after it run all the same."""
    graph, x = _network(), _rows()
    found: list[Check] = []
    model = _checked(found, "compile", lambda: _compiled(graph))
    if model is not None:
        _checked(found, "run", lambda: _run(model, x))
        _checked(found, "compare", lambda: _compared(model, graph, x))
        _checked(found, "threads", lambda: _threads(graph, x))
        _checked(found, "library", lambda: _library(model, x))
    _checked(found, "cache", _cache)
    return found


def peers() -> dict[str, str]:
    """Name -> version of each of `PEERS`, or `not installed`."""
    found = {}
    for name in PEERS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _checked(found: list[Check], name: str, action: Callable[[], tuple[Any, str]]) -> Any:
    """Append a check; return its result, None where it failed."""
    try:
        result, text = action()
    except (GraphcError, OSError) as error:
        found.append(Check(name, False, str(error)))
        return None
    found.append(Check(name, True, text))
    return result


def _network() -> Graph:
    """relu(x w) and the softmax of its rows."""
    graph = Graph("doctor")
    x = graph.make_input(LogicalTensor(F32, (_ROWS, _DEPTH)), "x")
    weights = np.sin(np.arange(_DEPTH * _COLUMNS)).reshape(_DEPTH, _COLUMNS).astype(np.float32)
    w = graph.make("constant", [], {"value": weights}).outputs[0]
    hidden = graph.make("relu", graph.make("matmul_core", [x, w]).outputs).outputs
    graph.make_output(graph.make("softmax", hidden, {"axis": -1}).outputs[0])
    return graph


def _rows() -> np.ndarray:
    return np.cos(np.arange(_ROWS * _DEPTH)).reshape(_ROWS, _DEPTH).astype(np.float32)


def _compiled(graph: Graph) -> tuple[CompiledModel, str]:
    begin = time.perf_counter()
    model = compile(graph, threads=1, cache=False)
    return model, f"{(time.perf_counter() - begin) * 1e3:.0f} ms for {target_for('native').isa}"


def _run(model: CompiledModel, x: np.ndarray) -> tuple[float, str]:
    call = model.bind({"x": x}, [np.empty((_ROWS, _COLUMNS), np.float32)])
    call()
    begin = time.perf_counter()
    call()
    seconds = time.perf_counter() - begin
    return seconds, f"{seconds * 1e6:.0f} us"


def _compared(model: CompiledModel, graph: Graph, x: np.ndarray) -> tuple[bool, str]:
    found = difference(model(x), graph.evaluate([x])[0])
    if not found.ok:
        raise OSError(f"results differ from the NumPy reference: {found}")
    return True, f"{found} against NumPy"


def _threads(graph: Graph, x: np.ndarray) -> tuple[int, str]:
    count = resolve_threads(None)
    several, single = (compile(graph, threads=n, cache=False)(x) for n in (max(count, 2), 1))
    if not np.array_equal(several, single):
        raise OSError("results depend on the number of threads")
    return count, f"{count} by default, {available_cpus()} CPUs may be used of {os.cpu_count()}"


def _library(model: CompiledModel, x: np.ndarray) -> tuple[Path | None, str]:
    """Export the model, and run the library where this system loads it."""
    if not model.artifact.object_code.startswith(b"\x7fELF"):
        return None, "native libraries are written for Linux"
    with tempfile.TemporaryDirectory() as folder:
        path, _ = export_library([model.artifact], Path(folder) / "doctor.so", "doctor")
        y = np.empty((_ROWS, _COLUMNS), np.float32)
        size, status = path.stat().st_size, library_call(path, "doctor", [x], [y])()
    if status or not np.array_equal(y, model(x)):
        raise OSError(f"the native library gives status {status} or other results")
    return path, f"{size} bytes, runs"


def _cache() -> tuple[Any, str]:
    cache = default_cache()
    if cache is None:
        return None, "off (GRAPHC_CACHE_DIR is empty)"
    found = cache.contents()
    entries = f"{len(found.models)} models, {found.kernels} kernels, {found.size_bytes >> 20} MiB"
    return cache, f"{cache.folder}: {entries}"
