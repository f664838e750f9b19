"""sort_rows: the first elements of each row in order, and their indices; `top_k` along the last axis becomes it."""

from __future__ import annotations

from typing import ClassVar

from ..ir.attributes import BoolAttr
from ..ir.axis_attributes import SizeAttr
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.registry import register
from .top_k import first_in_order, first_in_order_details


@register("sort_rows")
class SortRows(Op):
    """(values, indices s64) of the first `k` elements of each row, as `top_k` means them, by radix sort.

    Few of many are selected first.
    """

    kind: ClassVar[str] = "loop"
    operations: ClassVar[int] = 10  # the key, and a count and a move for each of four digits
    x = Operand()
    k = SizeAttr("number of elements to keep")
    largest = BoolAttr("largest first; otherwise in ascending order", default=True)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """x with rows of k, twice."""
        (x,) = inputs
        if not x.rank:
            raise self.rule("the input must have rows", f"{x}")
        return first_in_order_details(self, x, x.rank - 1, self.k)

    def reference(self, inputs: list[Array]) -> list[Array]:
        """A stable np.argsort."""
        return first_in_order(inputs[0], inputs[0].ndim - 1, self.k, self.largest)
