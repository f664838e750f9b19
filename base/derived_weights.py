"""Constants that are computed from others when a compiled model is loaded: transformed weights of convolutions.

A file holds the weights once; each layout and each Winograd transform of them that kernels read is made at load. The
sums are evaluated in a fixed order, without BLAS, so that every machine makes the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .records import dataclass

Array = np.ndarray[Any, Any]

_BLOCK = 1 << 12
"""Elements that are transformed at once, so that intermediate results stay in the cache."""


@dataclass(frozen=True)
class Derivation:
    """A constant at byte `offset`, made of the weights of `dims` and `dtype` at byte `source` of the stored weights.

    `matrix`: G of u = G w G^T, () for w itself; `made` is the dtype of the result. Its layout: zeros added behind each
    axis (`pads`), axes split into `split`, and these in `order`.
    """

    offset: int
    source: int
    dims: tuple[int, ...]
    dtype: str
    matrix: tuple[tuple[float, ...], ...]
    made: str
    pads: tuple[int, ...]
    split: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes of the constant."""
        return math.prod(self.split) * np.dtype(self.made).itemsize

    @property
    def source_size(self) -> int:
        """Bytes of the weights."""
        return math.prod(self.dims) * np.dtype(self.dtype).itemsize

    def write(self, sources: Array, constants: Array, scratch: Array) -> None:
        """Compute the constant from the stored weights, both u8[n], into its bytes of `constants`.

        `scratch`: u8[n] for the result in plain order, shared by many constants so that its pages are.
        """
        stored = sources[self.source : self.source + self.source_size]
        w = stored.view(self.dtype).reshape(self.dims)
        value = w
        if self.matrix:
            shape = (len(self.matrix) ** 2, self.dims[1], self.dims[0])
            count = math.prod(shape) * np.dtype(self.made).itemsize
            value = scratch[:count].view(self.made).reshape(shape)
            transform_weights(w, self.matrix, value)
        if any(self.pads):
            value = np.pad(value, [(0, after) for after in self.pads])
        arranged = value.reshape(self.split).transpose(self.order)
        target = constants[self.offset : self.offset + self.size]
        np.copyto(target.view(self.made).reshape(arranged.shape), arranged)

    @staticmethod
    def from_json(facts: Mapping[str, Any]) -> Derivation:
        """Return the derivation that `dataclasses.asdict` made plain values of."""
        lists = {key: tuple(facts[key]) for key in ("dims", "pads", "split", "order")}
        matrix = tuple(tuple(map(float, row)) for row in facts["matrix"])
        return Derivation(**{**facts, **lists, "matrix": matrix})


def transform_weights(w: Array, matrix: Sequence[Sequence[float]], made: Array) -> None:
    """Write u[points, C, O] with u[:, c, o] = G w[o, c] G^T of w[O, C, 3, 3], in float64 and rounded once."""
    outputs, channels = w.shape[:2]
    points = len(matrix)
    step = max(1, _BLOCK // max(outputs, 1))
    for begin in range(0, channels, step):
        taps = w[:, begin : begin + step].transpose(2, 3, 1, 0).astype(np.float64)
        rows = _combined(matrix, taps)  # [point, column, C, O]
        both = _combined(matrix, rows.swapaxes(0, 1)).swapaxes(0, 1)
        made[:, begin : begin + step] = both.reshape(points * points, *taps.shape[2:])


def _combined(matrix: Sequence[Sequence[float]], x: Array) -> Array:
    """Multiply a matrix by the first axis of x, adding terms from left to right."""
    made = np.zeros((len(matrix), *x.shape[1:]))
    term_scaled = np.empty(x.shape[1:])
    for row, target in zip(matrix, made, strict=True):
        for factor, term in zip(row, x, strict=True):
            if factor:
                target += np.multiply(term, factor, out=term_scaled)
    return made
