"""A compiled model run once between guard pages: inputs, outputs, constants and scratch memory, each at a border."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from ...base.errors import InternalError
from ...graph_ir.ir.graph import Array
from ...runtime import abi
from ...runtime.artifact import Artifact
from ...runtime.interruption import WatchedRuntime
from ...runtime.memory import data_address
from ...runtime.native import NativeModel
from .guarded import Edge, guarded, guarded_copy

FILL = 0xA5
"""Byte that scratch memory and results are filled with before the run."""


class GuardedModel:
    """An artifact, loaded once for several runs."""

    def __init__(self, artifact: Artifact, threads: int) -> None:
        self.artifact = artifact
        self.native = NativeModel(artifact, threads)


def run_guarded(
    model: GuardedModel, arrays: Sequence[Array], at: Edge, is_serial: bool = False
) -> list[Array]:
    """The results of one run, without threads if it `is_serial`; an access outside a buffer ends the process.

    Raise InternalError if an input was changed.
    """
    native, artifact = model.native, model.artifact
    meta = artifact.metadata
    inputs = [guarded_copy(array, at) for array in arrays]
    sized = native.sizes.of(tuple(array.shape for array in arrays))
    outputs = [guarded(spec.shape, spec.dtype, at) for spec in sized.outputs]
    constants = guarded_copy(artifact.constants, _aligned(artifact.constants.nbytes, at))
    arena = guarded(sized.arena_bytes, np.uint8, _aligned(sized.arena_bytes, at))
    arena[...] = FILL
    for output in outputs:
        output.reshape(-1).view(np.uint8)[...] = FILL
    sources = (ctypes.c_void_p * len(inputs))(*(data_address(a) for a in inputs))
    targets = (ctypes.c_void_p * len(outputs))(*(data_address(a) for a in outputs))
    pointers = [*(abi.pointer(x) for x in (sources, targets)), sized.pointer]
    memory = [abi.pointer(data_address(a)) for a in (constants, arena)]
    runtime = WatchedRuntime(None if is_serial else native.rt.value)
    code = native.entry(*pointers, *memory, runtime.pointer)
    if code != 0:
        raise runtime.error(meta.model, code)
    for spec, array, after in zip(meta.inputs, arrays, inputs, strict=True):
        if array.tobytes() != after.tobytes():
            raise InternalError(f"input '{spec.name}' is not what it was before the run")
    return outputs


def _aligned(size: int, at: Edge) -> Edge:
    """Return `at`, but the end only if the beginning is then aligned as generated code expects."""
    return at if size % abi.ALIGNMENT == 0 else "start"
