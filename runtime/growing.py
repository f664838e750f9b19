"""Calls of models with outputs in the memory of inputs: the room that a cache has, and the longer view of it.

A cache is the filled part of a larger array, `buffer[:, :, :length]`: the stride of the axis before the one that grows
says how large the buffer is. A run writes the rows behind it, and returns the part that is filled then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.aliases import Alias, free_name
from ..base.dims import Size, evaluate, symbols_of
from ..base.errors import UserError
from .arguments import accept_input, check_buffer
from .metadata import Metadata, TensorSpec


def free_rows(meta: Metadata, values: Mapping[str, int], rooms: Sequence[int]) -> dict[str, int]:
    """The rows that buffers have left after a run, by the names of these sizes. Raise UserError if one has too few.

    `rooms`: the rows of the buffer of each alias that grows.
    """
    found: dict[str, int] = {}
    sources: dict[str, str] = {}
    rows: dict[Size, int] = {}
    for alias, room in zip(filter(lambda a: a.grows, meta.aliases), rooms, strict=True):
        name, needed = meta.inputs[alias.input].name, rows.get(alias.after)
        if needed is None:
            needed = rows[alias.after] = evaluate(alias.after, values)
        if room < needed:
            raise UserError(
                f"input '{name}' has room for {room} rows on axis {alias.axis}, and output "
                f"'{meta.outputs[alias.output].name}' has {needed}; pass a part of a larger buffer"
            )
        (symbol,) = symbols_of([alias.before])
        free = found.setdefault(free_name(symbol), room - needed)
        first = sources.setdefault(symbol.name, name)
        if free != room - needed:
            raise UserError(
                f"inputs '{first}' and '{name}' must have the same room on axis {alias.axis}, "
                f"got {free + needed} and {room} rows"
            )
    return found


class AliasedArrays:
    """Takes the arrays of a call, and makes its results."""

    def __init__(self, meta: Metadata) -> None:
        self._specs = meta.arguments
        self._by_input: Mapping[int, Alias] = {a.input: a for a in meta.aliases}
        self._by_output: Mapping[int, Alias] = {a.output: a for a in meta.aliases}

    @property
    def count(self) -> int:
        """Return the number of outputs that lie in inputs."""
        return len(self._by_output)

    def holds(self, number: int) -> bool:
        """Return whether an output lies in the memory of this input."""
        return number in self._by_input

    def bound(
        self, arrays: Sequence[np.ndarray], specs: Sequence[TensorSpec]
    ) -> dict[int, np.ndarray]:
        """The outputs that lie in these inputs, by number. Raise UserError if a cache is full."""
        return {
            number: _longer(arrays[alias.input], specs[number])
            if alias.grows
            else arrays[alias.input]
            for number, alias in self._by_output.items()
        }

    def accept(self, values: Sequence[Any]) -> tuple[list[np.ndarray], tuple[int, ...]]:
        """The arrays to pass, and the rows of the buffer of each that grows, in the order of the aliases."""
        arrays, rooms = [], {}
        for number, (spec, value) in enumerate(zip(self._specs, values, strict=True)):
            alias = self._by_input.get(number)
            if alias is None:
                array = accept_input(spec, value)
            elif alias.grows:
                array = _writable(spec, value)
                rooms[number] = _room(spec, array, alias.axis)
            else:
                array = _writable(spec, check_buffer("input", spec, value))
            arrays.append(array)
        return arrays, tuple(rooms[number] for number in self._by_input if number in rooms)

    def results(
        self,
        arrays: Sequence[np.ndarray],
        specs: Sequence[TensorSpec],
        allocators: Sequence[Callable[[], np.ndarray]],
    ) -> list[np.ndarray]:
        """New arrays, and views of the inputs. Raise UserError if a cache is full."""
        own = self.bound(arrays, specs)
        return [own[i] if i in own else allocate() for i, allocate in enumerate(allocators)]


def _writable(spec: TensorSpec, value: Any) -> np.ndarray:
    """An array whose memory an output may be written to. May raise UserError."""
    if not isinstance(value, np.ndarray) or value.dtype != spec.dtype.numpy:
        accept_input(spec, value)  # says what is wrong, unless it could be converted
        raise UserError(
            f"input '{spec.name}' must be a NumPy array of {spec.dtype}: an output is written to its memory, "
            f"got {type(value).__name__}"
        )
    if value.ndim != len(spec.shape):
        raise UserError(
            f"input '{spec.name}' must be {spec.type_text}, got {spec.dtype}"
            f"[{','.join(map(str, value.shape))}]"
        )
    if not value.flags.writeable or not value.flags.aligned:
        problem = "read-only" if not value.flags.writeable else "misaligned"
        raise UserError(
            f"input '{spec.name}' is {problem}: an output is written to its memory; pass a writable array"
        )
    return value


def _room(spec: TensorSpec, array: np.ndarray, axis: int) -> int:
    """Return the capacity, in rows of an axis, of the buffer that `array` is a prefix of. Raise UserError for any
    other array."""
    shape, strides = array.shape, array.strides
    row = math.prod(shape[axis + 1 :]) * array.itemsize
    inner = _dense_strides(shape[axis + 1 :], array.itemsize)
    fits = all(
        n == 1 or own == wanted
        for n, own, wanted in zip(shape[axis:], strides[axis:], (row, *inner), strict=True)
    )
    outer = [i for i in range(axis) if shape[i] != 1]
    if not outer:
        begin, end = _memory(array)
        room = (end - begin) // row if row else shape[axis]
    else:
        last = outer[-1]
        room = strides[last] // row if row and strides[last] % row == 0 else -1
        wide = _dense_strides(shape[:axis], row * room)
        fits = fits and all(strides[i] == wide[i] for i in outer)
    if not fits or room < shape[axis]:
        raise UserError(
            f"input '{spec.name}' must be the first part of a dense buffer along axis {axis}, such as "
            f"buffer[{':, ' * axis}:{shape[axis]}], got strides {strides} for shape {shape}"
        )
    return room


def _dense_strides(shape: Sequence[int], unit: int) -> list[int]:
    found = [unit] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        found[i] = found[i + 1] * shape[i + 1]
    return found


def _owner(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _memory(array: np.ndarray) -> tuple[int, int]:
    """(address of the first element, end of the memory that the array is part of)."""
    low, high = np.lib.array_utils.byte_bounds(_owner(array))
    return array.ctypes.data, max(high, low)


def _longer(array: np.ndarray, result: TensorSpec) -> np.ndarray:
    """The part of the buffer that is filled after a run."""
    owner = _owner(array)
    start = array.ctypes.data - np.lib.array_utils.byte_bounds(owner)[0]
    try:
        # As bytes: Python knows no buffers of bf16.
        memory = owner.view(np.uint8).data
        return np.ndarray(result.shape, array.dtype, memory, start, array.strides)
    except (ValueError, BufferError, TypeError):
        raise UserError(
            f"output '{result.name}' does not fit behind the input whose memory it has; pass a part of a larger buffer"
        ) from None
