"""Calls of models with results whose sizes a run counts: arrays of the largest sizes, of which a part is filled.

A count without a limit has the room that was enough so far. A run that counts more is repeated with more room: what it
computed behind the count is of the wrong size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.dims import MOST, is_known
from ..base.errors import UserError
from ..base.size_queries import lone_symbol
from .metadata import Metadata
from .sizes import CallSizes, values_of

Caller = Callable[[Sequence[Any]], list[np.ndarray]]


def counted(call: Caller, meta: Metadata, sizes: CallSizes) -> Caller:
    """A call that returns results of the sizes that were counted, and leaves out the counts behind them."""
    specs = meta.results[: len(meta.outputs) - meta.hidden]
    end = len(specs) + len(meta.counts)

    def run(arrays: Sequence[Any]) -> list[np.ndarray]:
        while True:
            chosen = sizes.chosen  # another thread may choose more, never less
            results = call(arrays)
            values, needed = counts_of(meta, results[len(specs) : end], chosen)
            if not needed:
                break
            # A quarter more, so that a few calls find the most that any of them needs.
            sizes.make_room({name: min(n + n // 4, MOST) for name, n in needed.items()})
        if meta.sizes:
            values |= values_of(meta.arguments, [np.shape(array) for array in arrays])
        filled = [
            value if is_known(*spec.shape) else _filled(value, spec.at(values).shape)
            for spec, value in zip(specs, results, strict=False)
        ]
        return filled + results[end:]

    return run


def within_room(
    call: Callable[[], int],
    meta: Metadata,
    results: Sequence[np.ndarray],
    chosen: Mapping[str, int],
) -> Callable[[], int]:
    """A call on bound arrays that is a UserError where a count does not fit into its room."""
    end = len(meta.outputs) - len(meta.checks)
    counts = results[end - len(meta.counts) : end]

    def run() -> int:
        code = call()
        needed = {} if code else counts_of(meta, counts, chosen)[1]
        for name, number in needed.items():
            raise UserError(
                f"model '{meta.model}': the bound arrays have room for {name}={chosen[name]}, this run needs {number}; "
                "bind arrays that `allocate` makes for such inputs"
            )
        return code

    return run


def counts_of(
    meta: Metadata, counts: Sequence[np.ndarray], chosen: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the sizes that a run has counted, by name, up to the first that did not fit into the room chosen for it,
    and the room that this one needs. Raise UserError if a size is outside of its range."""
    values = {}
    for (symbol, limit), one in zip(meta.counts, counts, strict=True):
        number = values[symbol.name] = int(one[0])
        if not symbol.least <= number <= symbol.most:
            raise UserError(
                f"model '{meta.model}': the size '{symbol.name}', which the data decide, must be in "
                f"{symbol.range_text}, got {number}"
            )
        room = lone_symbol(limit)
        if room and number > chosen.get(room.name, number):
            return values, {room.name: number}
    return values, {}


def _filled(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The first elements of an array, in another shape: a copy where they are less than half of it."""
    if value.shape == shape:
        return value
    count = math.prod(shape)
    part = value.reshape(-1)[:count].reshape(shape)
    return part.copy() if 2 * count < value.size else part
