"""repeat: every element several times, along any axes; resizing to whole multiples by the nearest element is this."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...tensor_ir.nodes import Expr
from ..ir.axis_attributes import IntsAttr, rank_of_first
from ..ir.computation import Index, Read
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.registry import register
from .movement import Movement


@register("repeat")
class Repeat(Movement):
    """Every element `counts[axis]` times in a row along each axis, as np.repeat."""

    x = Operand()
    counts = IntsAttr("repetitions of each element per axis, at least 1", count=rank_of_first)

    def result_dims(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """Every size times its count."""
        if any(count < 1 for count in self.counts):
            raise self.rule("counts must be at least 1", str(list(self.counts)))
        return tuple(n * count for n, count in zip(inputs[0].plain_dims, self.counts, strict=True))

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.repeat along each axis."""
        (x,) = inputs
        for axis, count in enumerate(self.counts):
            x = np.repeat(x, count, axis)
        return [np.ascontiguousarray(x)]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The element at the index divided by the counts."""
        return reads[0](tuple(i // count for i, count in zip(index, self.counts, strict=True)))
