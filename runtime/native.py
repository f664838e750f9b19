"""The loaded form of a model, and the one function every checked call goes through."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.errors import InternalError, UserError
from ..targets.isa import tile_features
from . import abi
from .arguments import DENSE, accept_input
from .artifact import Artifact
from .growing import AliasedArrays
from .loader import LoadedCode, host_features
from .memory import DATA_POINTER_OFFSET, FrameList, data_address, output_allocator
from .sizes import CallSizes, SizedCall
from .threadpool import shared_pool
from .tile_permission import tiles_permitted

Caller = Callable[[Sequence[Any]], list[np.ndarray]]


class NativeModel:
    """Code, constants and scratch memory of one model, in the process.

    Running calls and bound calls hold a reference, so that closing a model does not free it while they use it.
    """

    def __init__(self, artifact: Artifact, threads: int) -> None:
        meta = artifact.metadata
        on_vectors = meta.uses_tiles and not runs_tiles()
        if on_vectors and not artifact.vector_code:
            raise UserError(
                f"{artifact.label}: needs tile registers, which this CPU or system refuses; compile it with -X no-amx"
            )
        self.code = LoadedCode(artifact.vector_code if on_vectors else artifact.object_code)
        _check_signature(artifact, self.code)
        self.entry = abi.EntryFunction(self.code.address(abi.ENTRY_NAME))
        self.pool = shared_pool(threads, artifact.support_code)
        self.rt = abi.pointer(None if self.pool is None else self.pool.address)
        self.constants = artifact.constants
        self.constants_pointer = abi.pointer(data_address(artifact.constants))
        self.frames = FrameList(meta.model, len(meta.inputs), len(meta.outputs), self.rt.value)
        self._arena_bytes = abi.ArenaFunction(self.code.address(abi.ARENA_NAME))
        self.sizes = CallSizes(meta, self._arena_bytes)


def runs_tiles() -> bool:
    """Return whether this CPU has tile registers and this process may use them."""
    return host_features().issuperset(tile_features()) and tiles_permitted()


def _check_signature(artifact: Artifact, code: LoadedCode) -> None:
    """Refuse a header that says something else than the code: it would read and write outside of its arrays.

    Raise UserError for a file, InternalError for what was just compiled.
    """
    meta = artifact.metadata
    header = abi.signature(
        meta.inputs,
        meta.written,
        artifact.constants.nbytes,
        meta.arena_bytes,
        [symbol.name for symbol in meta.sizes],
    )
    own = ctypes.string_at(code.address(abi.SIGNATURE_NAME)).decode(errors="replace")
    if own != header:
        blame = UserError if artifact.origin else InternalError
        raise blame(
            f"{artifact.label}: is corrupt or forged: its header describes '{_shortened(header)}', "
            f"its code is '{_shortened(own)}'; compile the model again"
        )


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else text[:100] + " ... " + text[-100:]


def make_caller(native: NativeModel, artifact: Artifact) -> Caller:
    """Return the function that checks one array per input, runs the model and returns fresh output arrays.

    A closure, longer than most functions here: it is the entire overhead of a call, and each attribute lookup or call
    it avoids saves a few percent.
    """
    meta = artifact.metadata
    if meta.aliases:
        return _aliased_caller(native, artifact)
    if meta.sizes:
        return _sized_caller(native, artifact)
    inputs = [(i, spec, spec.dtype.numpy, spec.shape) for i, spec in enumerate(meta.inputs)]
    outputs = [(i, output_allocator(s.shape, s.dtype.numpy)) for i, s in enumerate(meta.written)]
    entry, constants = native.entry, native.constants_pointer
    ndarray, slot, offset = np.ndarray, ctypes.c_void_p.from_address, DATA_POINTER_OFFSET
    arena_bytes, no_sizes = native.sizes.of(()).arena_bytes, abi.pointer(None)

    def call(arrays: Sequence[Any]) -> list[np.ndarray]:
        kept = []  # converted inputs must outlive the native call
        results = []
        frames = native.frames  # by way of the model, which keeps the code alive
        try:
            frame = frames.pop()
        except IndexError:
            frame = frames.new(arena_bytes)
        try:
            sources, targets, (source_pointer, target_pointer, arena, rt), _, watched = frame
            for i, spec, dtype, shape in inputs:
                array = arrays[i]
                if (
                    type(array) is not ndarray
                    or array.dtype is not dtype
                    or array.shape != shape
                    or array.flags.num & DENSE != DENSE
                ):
                    array = accept_input(spec, array)
                    kept.append(array)
                sources[i] = slot(id(array) + offset).value
            for i, allocate in outputs:
                array = allocate()
                results.append(array)
                targets[i] = slot(id(array) + offset).value
            code = entry(source_pointer, target_pointer, no_sizes, constants, arena, rt)
            if code != 0:
                raise watched.error(meta.model, code)
        finally:
            frames.append(frame)
        return results

    return call


def _sized_caller(native: NativeModel, artifact: Artifact) -> Caller:
    """Make a caller, like `make_caller`, for a model with dynamic sizes, which are looked up by the shapes of
    the inputs."""
    model = artifact.metadata.model
    inputs = [(i, spec, spec.dtype.numpy) for i, spec in enumerate(artifact.metadata.inputs)]
    entry, constants, sizes_of = native.entry, native.constants_pointer, native.sizes.of
    ndarray, slot, offset = np.ndarray, ctypes.c_void_p.from_address, DATA_POINTER_OFFSET

    def call(arrays: Sequence[Any]) -> list[np.ndarray]:
        kept = []  # the arrays that are passed: converted ones must outlive the native call
        shapes = []
        for i, spec, dtype in inputs:
            array = arrays[i]
            if (
                type(array) is not ndarray
                or array.dtype is not dtype
                or array.flags.num & DENSE != DENSE
            ):
                array = accept_input(spec, array)
            kept.append(array)
            shapes.append(array.shape)
        at = sizes_of(tuple(shapes))
        frames = native.frames  # by way of the model, which keeps the code alive
        frame = frames.take(at.arena_bytes)
        results = []
        try:
            sources, targets, (source_pointer, target_pointer, arena, rt), _, watched = frame
            for i, array in enumerate(kept):
                sources[i] = slot(id(array) + offset).value
            for i, allocate in enumerate(at.allocators):
                array = allocate()
                results.append(array)
                targets[i] = slot(id(array) + offset).value
            code = entry(source_pointer, target_pointer, at.pointer, constants, arena, rt)
            if code != 0:
                raise watched.error(model, code)
        finally:
            frames.append(frame)
        return results

    return call


def _aliased_caller(native: NativeModel, artifact: Artifact) -> Caller:
    """Make a caller, like `_sized_caller`, for a model with outputs in the memory of inputs."""
    model, aliased = artifact.metadata.model, AliasedArrays(artifact.metadata)

    def call(values: Sequence[Any]) -> list[np.ndarray]:
        arrays, rooms = aliased.accept(values)
        at = native.sizes.of(tuple(array.shape for array in arrays), rooms)
        results = aliased.results(arrays, at.outputs, at.allocators)
        inputs, outputs = list(map(data_address, arrays)), list(map(data_address, results))
        run_at(native, model, at, inputs, outputs)
        return results

    return call


def run_at(
    native: NativeModel, model: str, at: SizedCall, inputs: Sequence[int], outputs: Sequence[int]
) -> None:
    """Run a model once, on dense arrays at these addresses, of the types of `at`."""
    frame = native.frames.take(at.arena_bytes)
    try:
        sources, targets, (source_pointer, target_pointer, arena, rt), _, watched = frame
        sources[:] = [*inputs]
        targets[:] = [*outputs]
        constants = native.constants_pointer
        code = native.entry(source_pointer, target_pointer, at.pointer, constants, arena, rt)
        if code != 0:
            raise watched.error(model, code)
    finally:
        native.frames.append(frame)
