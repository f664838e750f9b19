"""Results whose size depends on data: which elements are true, and numbers of a run that become sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...base.dims import Size, Symbol, bounds, lone_symbol
from ...base.dtypes import BOOL, S64
from ..ir.axis_attributes import SizesAttr
from ..ir.computation import Computation, Pointwise
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.registry import register
from .movement import Movement


@register("true_indices")
class TrueIndices(Op):
    """Where a list of bool is true, in order and then zeros, and how often."""

    kind: ClassVar[str] = "loop"

    x = Operand("the list")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """S64 of the size of the list, and one s64. UserError where it is no list of bool."""
        (x,) = inputs
        if x.dtype != BOOL or x.rank != 1:
            raise self.rule("x must be a list of bool", str(x))
        return [LogicalTensor(S64, x.plain_dims), LogicalTensor(S64, (1,))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.flatnonzero, padded."""
        found = np.flatnonzero(inputs[0])
        indices = np.zeros(inputs[0].shape, np.int64)
        indices[: found.size] = found
        return [indices, np.array([found.size])]


@register("counted_rows")
class CountedRows(Movement):
    """As many of the first rows of x as a run has counted: at most those that it has."""

    x = Operand()
    size = SizesAttr("how many rows, as a list of one", count=lambda op: 1)

    def result_dims(self, inputs: Sequence[LogicalTensor]) -> tuple[Any, ...]:
        """Those of x, but for the first. UserError where x has fewer rows for sure."""
        (x,) = inputs
        if not x.rank or bounds(self.size[0])[0] > bounds(x.plain_dims[0])[1]:
            raise self.rule(f"x must have {self.size[0]} rows", str(x))
        return (self.size[0], *x.plain_dims[1:])

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Basic indexing."""
        return [inputs[0][: int(self.size[0])]]

    def computation(self) -> Computation:
        """The element at the same index."""
        return Pointwise(lambda reads, index: reads[0](index))


@register("count")
class Count(Op):
    """A number that a run computes, from which on it is a size.

    What follows may have this size, an open one from 0 on. Memory is planned for `most`; numbers beyond these ends
    count as the nearer one.
    """

    kind: ClassVar[str] = "loop"

    x = Operand("the number")
    size = SizesAttr("the size that it is, as a list of one", count=lambda op: 1)
    most = SizesAttr("the largest that it can be, as a list of one", count=lambda op: 1)

    @property
    def symbol(self) -> Symbol:
        """The size's name and range."""
        found = lone_symbol(self.size[0])
        if found is None:
            raise self.rule("size must be one open size", str(self.size[0]))
        return found

    @property
    def limit(self) -> Size:
        """`most` itself."""
        limit: Size = self.most[0]
        return limit

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The type of x. UserError where it is not one s64."""
        (x,) = inputs
        if x.dtype != S64 or x.plain_dims != (1,):
            raise self.rule("x must be s64[1]", str(x))
        return [x]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The number within its ends."""
        return [np.clip(inputs[0], 0, int(self.limit))]
