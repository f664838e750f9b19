"""A compiled model that runs: one native call per run, from any number of Python threads."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..base.errors import UserError
from ..base.html_table import html_table
from ..base.on_demand import OFFERED
from ..base.run_checks import without_checks
from .arguments import arrange_inputs, check_apart, check_buffer, select_outputs
from .artifact import Artifact
from .counted import counted, within_room
from .growing import AliasedArrays
from .loader import check_cpu
from .memory import data_address
from .metadata import TensorSpec
from .native import Caller, NativeModel, make_caller, run_at
from .sizes import SizedCall
from .travel import packed, unpacked

_LIBRARIES = (".so", ".a", ".o", ".obj", ".dll", ".dylib", ".lib")
"""Endings of native libraries, of which `export` refuses those that only a linker makes."""


class CompiledModel:
    """A compiled model, ready to run; `graphc.compile` and `graphc.load` return it.

    Many Python threads may call it at once. Arrays with other strides, alignment or byte order are copied; values are
    never cast: a wrong dtype is a `UserError` that names the input, the expected type and the type it got.
    Models can be pickled and copied; a pickle of more than 16 MB refers to the model's file, or the entry of the
    compile cache.
    """

    def __init__(self, artifact: Artifact, threads: int = 1) -> None:
        check_cpu(artifact.metadata, artifact.label)
        self.artifact = artifact
        self._names = [spec.name for spec in artifact.metadata.inputs]
        self._name_set = set(self._names)
        native = NativeModel(artifact, threads)
        self.threads = 1 if native.pool is None else native.pool.threads
        self._native: NativeModel | None = native
        call = make_caller(native, artifact)
        if artifact.metadata.counts:
            call = counted(call, artifact.metadata, native.sizes)
        self._call: Caller = _checked(call, artifact) if artifact.metadata.checks else call

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self.threads, *packed(self.artifact))

    def __copy__(self) -> CompiledModel:
        return CompiledModel(self.artifact, self.threads)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledModel:
        return CompiledModel(self.artifact, self.threads)  # which nothing changes

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of every input, in the order of positional arguments."""
        return self.artifact.metadata.arguments

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of every output, in the order they are returned."""
        meta = self.artifact.metadata
        return meta.results[: len(meta.outputs) - meta.hidden]

    @property
    def stats(self) -> dict[str, Any]:
        """Counts of the compiler: ops, kernels and their calls, layouts, bytes of constants and arena, GFLOP."""
        return dict(self.artifact.metadata.stats)

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        """Run once.

        Args:
            *arrays: The inputs by position.
            **named: The inputs by name.

        Returns:
            The output, or a tuple of several outputs.

        Raises:
            UserError: An input is missing, or has another dtype or shape than the model.
        """
        if named or len(arrays) != len(self._names):
            results = self._call(self._arrange(arrays, named))
        else:
            results = self._call(arrays)
        return results[0] if len(results) == 1 else tuple(results)

    def run(
        self, output_names: Sequence[str] | None, inputs: Mapping[str, Any]
    ) -> list[np.ndarray]:
        """Run once, with the signature of ONNX Runtime.

        Args:
            output_names: Names of the outputs to return; None returns all.
            inputs: Arrays by input name.
        """
        if output_names is None:
            return self._call(self._arrange((), inputs))
        chosen = select_outputs(self.artifact.metadata.model, self.outputs, output_names)
        results = self._call(self._arrange((), inputs))
        return [results[i] for i in chosen]

    def bind(
        self,
        inputs: Mapping[str, Any],
        outputs: Sequence[np.ndarray | None],
        rt: ctypes.c_void_p | None = None,
    ) -> Callable[[], int]:
        """Return a function without arguments that runs the model on fixed buffers, which are checked only here.

        Each call of the function reads the current contents of the inputs and overwrites the outputs. It must not run
        in two threads at once: bind once per thread.

        Args:
            inputs: Dense arrays of the exact dtype and shape, by input name, of NumPy or with DLPack. No two arrays may
                share memory.
            outputs: Dense arrays in the order of `outputs`. The entry of an output that shares the memory of an input
                (`alias`) is ignored and may be None. An output whose size a run decides needs room for the largest;
                a model without a limit for it is run once, to find how much room these inputs need.
            rt: Runs the parallel loops instead of the model's thread pool (`runtime/abi.py`); keep it alive.
        """
        native, model = self._loaded(), self.artifact.metadata.model
        values, aliased, at = self._sized(native, inputs)
        if not isinstance(outputs, Sequence):
            raise UserError(
                f"model '{model}': outputs must be a sequence of arrays, got {type(outputs).__name__}"
            )
        if len(outputs) != len(self.outputs):
            raise UserError(
                f"model '{model}' must be given {len(self.outputs)} output buffers, got {len(outputs)}"
            )
        sources, results = _bound_arrays(aliased, at, values, outputs)
        frame = native.frames.new(at.arena_bytes, is_bound=True)
        frame.inputs[:] = [data_address(a) for a in sources]
        frame.outputs[:] = [data_address(a) for a in results]
        inputs_pointer, outputs_pointer, arena, own = frame.pointers
        call = partial(
            native.entry,
            inputs_pointer,
            outputs_pointer,
            at.pointer,
            native.constants_pointer,
            arena,
            own if rt is None else ctypes.cast(rt, ctypes.c_void_p),
        )
        call.keep_alive = (native, frame, at, sources, results)  # type: ignore[attr-defined]
        meta = self.artifact.metadata
        return within_room(call, meta, results, at.chosen) if meta.rooms else call

    @property
    def takes_addresses(self) -> bool:
        """Return whether `run_at` can run the model: no output aliases an input or depends on a counted size, and the
        model itself has no conditions."""
        meta = self.artifact.metadata
        return not (meta.aliases or meta.counts or meta.checks)

    def sized(self, shapes: tuple[tuple[int, ...], ...]) -> SizedCall:
        """The call with inputs of these shapes; its `outputs` are their types. Raise UserError if shapes do not fit."""
        return self._loaded().sizes.of(shapes)

    def run_at(self, at: SizedCall, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Run once on memory at these addresses, in the model's order; only for those that `takes_addresses`.

        Nothing is checked: at each there must be a dense array of the type that `at` has. What takes arrays of other
        libraries can call this without making NumPy's of them.
        """
        run_at(self._loaded(), self.artifact.metadata.model, at, inputs, outputs)

    def allocate(self, inputs: Mapping[str, Any]) -> list[np.ndarray]:
        """Return new output arrays for `bind` with these inputs."""
        _, _, at = self._sized(self._loaded(), inputs)
        return [allocate() for allocate in at.allocators[: len(self.outputs)]]

    @property
    def pool_address(self) -> int | None:
        """The `rt` of the model's thread pool; None where its loops run serially. UserError once closed."""
        return self._loaded().rt.value

    def make_room(self, needed: Mapping[str, int]) -> None:
        """Choose at least this much room, by the names of the model's `max_...` sizes, for later calls and bindings.

        Calls do so themselves where they find too little.
        """
        self._loaded().sizes.make_room(needed)

    def trim(self) -> None:
        """Release scratch memory that no call uses; the next call allocates what it needs.

        A model with dynamic dimensions otherwise keeps the memory of its largest call.
        """
        native = self._loaded()
        native.frames.clear()
        native.sizes.forget()

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        sign: str | os.PathLike[str] = "",
        weights: str | os.PathLike[str] = "",
    ) -> None:
        """Write the artifact to a `.gcm` file, atomically, or a native library as `graphc.export` does.

        Args:
            path: The file; `m.so`, `m.a`, `m.o` and `m.obj` are native libraries, which have headers beside them.
            weights: A folder for large constants, each a safetensors file named by its SHA-256: models that have
                tensors in common share files, and processes the memory. The artifact finds it relative to itself.
            sign: The file of an Ed25519 private key, in PEM or OpenSSH format, to sign it with.

        Raises:
            UserError: The system refuses the file, or the key cannot be used.
        """
        if Path(path).suffix not in _LIBRARIES:
            self.artifact.save(path, sign=sign or None, store=weights)
        elif sign or weights:
            raise UserError(
                f"save: sign and weights must be empty for a native library, got '{os.fspath(path)}'; give a .gcm file"
            )
        else:
            OFFERED["export"](self, path)

    def close(self) -> None:
        """Release code and scratch memory once no call runs and no bound function exists. May be called again."""
        self._native = None
        self._call = _closed_caller(self.artifact.metadata.model)

    def __enter__(self) -> CompiledModel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self._native is not None else ", closed"
        types = f"({', '.join(map(repr, self.inputs))}) -> ({', '.join(map(repr, self.outputs))})"
        return f"<CompiledModel '{self.artifact.metadata.model}' {types}, {self.artifact.metadata.isa}{state}>"

    def _repr_html_(self) -> str:
        """The kernels in the order they run, for notebooks."""
        rows = [(call["kernel"], call["note"]) for call in self.stats.get("calls", ())]
        return html_table(repr(self), ("kernel", "ops and schedule"), rows)

    def _loaded(self) -> NativeModel:
        if self._native is None:
            raise _closed(self.artifact.metadata.model)
        return self._native

    def _sized(
        self, native: NativeModel, inputs: Mapping[str, Any]
    ) -> tuple[list[Any], AliasedArrays, SizedCall]:
        """The inputs in order, what they share with outputs, and the sizes of a call with them."""
        values = self._arrange((), inputs)
        if self.artifact.metadata.rooms and self.artifact.metadata.counts:
            self._call(values)
        aliased = AliasedArrays(self.artifact.metadata)
        arrays, rooms = aliased.accept(values) if aliased.count else (values, ())
        return (
            values,
            aliased,
            native.sizes.of(tuple(getattr(a, "shape", ()) for a in arrays), rooms),
        )

    def _arrange(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        keys = getattr(named, "keys", None)  # what is not a mapping has none, and is refused below
        if not arrays and keys and keys() == self._name_set:  # the usual case, ten times as fast
            return [named[name] for name in self._names]
        return arrange_inputs(self.artifact.metadata.model, self.inputs, arrays, named)


def _remade(threads: int, *parts: Any) -> CompiledModel:
    """A model from its pickle."""
    return CompiledModel(unpacked(*parts), threads)


def _bound_arrays(
    aliased: AliasedArrays, at: SizedCall, values: Sequence[Any], outputs: Sequence[Any]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The arrays that native code reads and writes on every call. Raise UserError for what it cannot use in place."""
    sources = [
        value if aliased.holds(number) else check_buffer("input", spec, value)
        for number, (spec, value) in enumerate(zip(at.inputs, values, strict=True))
    ]
    own = aliased.bound(sources, at.outputs)
    results = [
        own[number] if number in own else check_buffer("output", spec, value)
        for number, (spec, value) in enumerate(zip(at.outputs, outputs, strict=False))
    ]
    results += [np.empty(spec.shape, spec.dtype.numpy) for spec in at.outputs[len(results) :]]
    others = [number for number in range(len(results)) if number not in own]
    check_apart([at.outputs[i] for i in others], sources, [results[i] for i in others])
    return sources, results


def _checked(call: Caller, artifact: Artifact) -> Caller:
    """A call that leaves out the conditions among the results. Raise UserError if one does not hold."""
    model, checks = artifact.metadata.model, artifact.metadata.checks
    return lambda arrays: without_checks(model, call(arrays), checks)


def _closed(model: str) -> UserError:
    return UserError(f"model '{model}' is closed; compile or load it again")


def _closed_caller(model: str) -> Caller:
    def call(arrays: Sequence[Any]) -> list[np.ndarray]:
        raise _closed(model)

    return call
