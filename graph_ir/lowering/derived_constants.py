"""Constants of a program that can be computed from weights that are stored once (`base/derived_weights.py`)."""

from __future__ import annotations

from ...base.derived_weights import Derivation
from ..ir.graph import Array, Op
from ..passes.fold_constants import SOURCE


class DerivedConstants:
    """The weights that several constants of a program are made of, and how each is made: in other layouts, or
    transformed. `take` is told each constant and its offset."""

    def __init__(self) -> None:
        self.sources: list[Array] = []
        self._offsets: dict[int, int] = {}
        self._end = 0
        self._made: dict[int, Derivation] = {}

    def take(self, op: Op, offset: int) -> None:
        """Record a constant if it is made of weights that `fold_constants` kept."""
        if SOURCE not in op.attrs or offset in self._made:
            return
        details, (weights, matrix) = op.outputs[0].details, op.attrs[SOURCE]
        if id(weights) not in self._offsets:
            self._offsets[id(weights)] = self._end
            self.sources.append(weights)
            self._end += weights.nbytes
        self._made[offset] = Derivation(
            offset, self._offsets[id(weights)], weights.shape, weights.dtype.name, matrix,
            details.dtype.numpy.name, *details.format.steps(details.plain_dims),
        )  # fmt: skip

    @property
    def derivations(self) -> tuple[Derivation, ...]:
        """The derivations of all recorded constants, by offset."""
        return tuple(self._made[offset] for offset in sorted(self._made))
