"""The sizes of one call of a model that leaves some open: read from the shapes of its inputs, with what follows.

What is known of a combination of shapes is kept, so that a call with shapes that were seen costs one look-up.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..base.dims import TYPICAL, Dim, Size, evaluate, symbols_of
from ..base.errors import UserError
from ..base.records import dataclass
from ..base.size_queries import solved
from .abi import pointer
from .growing import free_rows
from .memory import output_allocator
from .metadata import MAX_BYTES, Metadata, TensorSpec

MAX_KEPT = 256
"""Combinations of shapes that are kept."""

Shape = tuple[int, ...]
NONE: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class SizedCall:
    """A call with certain sizes: its arrays, what makes its outputs, its scratch memory, and the `sizes` argument.

    `chosen`: the room for counts without a limit, by the names of these sizes.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    allocators: tuple[Callable[[], np.ndarray], ...]
    arena_bytes: int
    values: ctypes.Array[ctypes.c_int64]
    pointer: ctypes.c_void_p
    chosen: Mapping[str, int]


class CallSizes:
    """Finds the sizes of calls of one model; `arena_bytes` is its native function."""

    def __init__(self, metadata: Metadata, arena_bytes: Callable[[ctypes.c_void_p], int]) -> None:
        self._metadata = metadata
        self._arena_bytes = arena_bytes
        self._kept: dict[tuple[Any, ...], SizedCall] = {}
        self.chosen = dict.fromkeys(metadata.rooms, TYPICAL)
        self._arguments, self._results = metadata.arguments, metadata.buffers
        self._fixed = None if metadata.sizes else self._make({}, {})

    def of(self, shapes: tuple[Shape, ...], rooms: Shape = ()) -> SizedCall:
        """Return the call for inputs of these shapes and buffers with `rooms` rows. Raise UserError if they do not
        fit."""
        if self._fixed is not None:
            return self._fixed
        chosen = self.chosen
        key = (shapes, rooms, *chosen.values()) if rooms or chosen else shapes
        found = self._kept.get(key)
        if found is None:
            values = values_of(self._arguments, shapes, chosen)
            found = self._make(values | free_rows(self._metadata, values, rooms), chosen)
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            self._kept[key] = found
        return found

    def make_room(self, needed: Mapping[str, int]) -> None:
        """Choose at least this much room for counts, by the names of these sizes, which never become smaller."""
        old = self.chosen
        self.chosen = {name: max(size, needed.get(name, 0)) for name, size in old.items()}

    def forget(self) -> None:
        """Drop what is kept."""
        self._kept.clear()
        self.chosen = dict.fromkeys(self.chosen, TYPICAL)

    def _make(self, values: Mapping[str, int], chosen: Mapping[str, int]) -> SizedCall:
        meta = self._metadata
        if meta.rooms:
            check_bytes(meta, values)
        numbers = (ctypes.c_int64 * len(meta.sizes))(*(values[s.name] for s in meta.sizes))
        address = ctypes.cast(numbers, ctypes.c_void_p)
        known: dict[tuple[Size, ...], Shape] = {}
        inputs, outputs = (
            tuple(s.at(values, known) for s in specs) for specs in (self._arguments, self._results)
        )
        makers = tuple(output_allocator(s.shape, s.dtype.numpy) for s in outputs)
        where = address if meta.sizes else pointer(None)
        arena_bytes = int(self._arena_bytes(where))
        return SizedCall(inputs, outputs, makers, arena_bytes, numbers, where, chosen)


def check_bytes(meta: Metadata, values: Mapping[str, int]) -> None:
    """Raise UserError if a call with these sizes takes more memory than a process can have: code would compute less."""
    arrays = [math.prod(s.at(values).shape) * s.dtype.size for s in meta.buffers]
    total = evaluate(meta.arena_bytes, values) + sum(arrays)
    if total > MAX_BYTES:
        raise UserError(
            f"model '{meta.model}': no memory for the {total} bytes that this call needs"
        )


def call_sizes(metadata: Metadata, arrays: Mapping[str, Any]) -> dict[str, int]:
    """The dynamic sizes, by name, of a call with these inputs, by name. Raise UserError if one is missing or does
    not fit."""
    missing = [spec.name for spec in metadata.inputs if spec.name not in arrays]
    if missing:
        raise UserError(f"model '{metadata.model}' needs input '{missing[0]}'")
    return values_of(metadata.arguments, [np.shape(arrays[x.name]) for x in metadata.arguments])


def values_of(
    specs: Sequence[TensorSpec], shapes: Sequence[Shape], chosen: Mapping[str, int] = NONE
) -> dict[str, int]:
    """The dynamic sizes, by name, of inputs of these shapes, with those that were `chosen`. UserError naming the input
    that does not fit."""
    values: dict[str, int] = {**chosen}
    sources: dict[str, str] = {}
    given = _distinct(specs, shapes)
    for spec, shape in given:
        if len(shape) != len(spec.shape):
            raise _misfit(spec, shape, f"with {len(spec.shape)} axes")
        for wanted, number in zip(spec.shape, shape, strict=True):
            found = solved(wanted, number)
            if found is None or found[0].name in values:
                continue
            symbol, value = found
            if not symbol.least <= value <= symbol.most:
                raise _misfit(spec, shape, f"with {symbol.name} in {symbol.range_text}")
            values[symbol.name], sources[symbol.name] = value, spec.name
    for spec, shape in given:
        for wanted, number in zip(spec.shape, shape, strict=True):
            unknown = [s.name for s in symbols_of([wanted]) if s.name not in values]
            if unknown:
                raise _misfit(spec, shape, f"with {unknown[0]} an integer")
            if evaluate(wanted, values) != number:
                raise _misfit(spec, shape, _origin(wanted, values, sources))
    return values


def _distinct(
    specs: Sequence[TensorSpec], shapes: Sequence[Shape]
) -> Iterable[tuple[TensorSpec, Shape]]:
    """Pairs without repetitions: the caches of all layers of a decoder have one shape."""
    found: dict[tuple[Any, ...], tuple[TensorSpec, Shape]] = {}
    for spec, shape in zip(specs, shapes, strict=True):
        found.setdefault((spec.shape, shape), (spec, shape))
    return found.values()


def _origin(wanted: Size, values: Mapping[str, int], sources: Mapping[str, str]) -> str:
    """Return a phrase that says which input or size determines a number."""
    if not isinstance(wanted, Dim):
        return "whose numbers are fixed"
    known = [
        f"{s.name}={values[s.name]}" + (f" as in '{sources[s.name]}'" if s.name in sources else "")
        for s in wanted.symbols
    ]
    return f"with {' and '.join(known)}"


def _misfit(spec: TensorSpec, shape: Shape, rule: str) -> UserError:
    got = ",".join(map(str, shape))
    return UserError(
        f"input '{spec.name}' must be {spec.type_text} {rule}, got {spec.dtype}[{got}]"
    )
