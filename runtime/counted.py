"""Calls of models with results whose sizes a run counts: arrays of the largest sizes, of which a part is filled."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.dims import is_known
from .metadata import Metadata
from .sizes import values_of

Caller = Callable[[Sequence[Any]], list[np.ndarray]]


def counted(call: Caller, meta: Metadata) -> Caller:
    """A call that returns results of the sizes that were counted, and leaves out the counts at their end."""
    names = [symbol.name for symbol, _ in meta.counts]
    specs = meta.results[: len(meta.outputs) - meta.hidden]

    def run(arrays: Sequence[Any]) -> list[np.ndarray]:
        results = call(arrays)
        sizes = {name: int(one[0]) for name, one in zip(names, results[len(specs) :], strict=True)}
        if meta.sizes:
            sizes |= values_of(meta.arguments, [np.shape(array) for array in arrays])
        return [
            value if is_known(*spec.shape) else _filled(value, spec.at(sizes).shape)
            for spec, value in zip(specs, results[: len(specs)], strict=True)
        ]

    return run


def _filled(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The first elements of an array, in another shape: a copy where they are less than half of it."""
    if value.shape == shape:
        return value
    count = math.prod(shape)
    part = value.reshape(-1)[:count].reshape(shape)
    return part.copy() if 2 * count < value.size else part
