"""Numbers that follow from dynamic sizes: the sizes themselves, and ranges as long as one of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.dims import is_known
from ...base.dtypes import S64
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.attributes import IntAttr
from ..ir.axis_attributes import SizesAttr
from ..ir.computation import Index, Read
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import FusibleOp
from ..ir.registry import register


@register("dynamic_sizes")
class DynamicSizes(FusibleOp):
    """The values of dynamic dimensions in this run, as a list of s64."""

    values = SizesAttr("the sizes")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """One number for each."""
        return [LogicalTensor(S64, (len(self.values),))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The numbers; expressions where they are dynamic."""
        dtype = np.int64 if is_known(*self.values) else object
        return [np.array(self.values, dtype)]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The size whose number the index is."""
        values = self.values
        result: Expr = t.as_expr(values[-1]) if values else t.as_expr(0)
        for number, value in reversed(list(enumerate(values[:-1]))):
            result = t.select(t.equal(index[0], number), t.as_expr(value), result)
        return result


@register("count_up")
class CountUp(FusibleOp):
    """start, start + step, start + 2 * step, ...: as many as one dimension, which may be dynamic."""

    size = SizesAttr("how many, as a list of one", count=lambda op: 1)
    start = IntAttr("the first", default=0)
    step = IntAttr("step", default=1)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """S64, of that size."""
        return [LogicalTensor(S64, self.size)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.arange."""
        (count,) = self.outputs[0].details.plain_dims
        return [self.start + self.step * np.arange(count, dtype=np.int64)]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The number at an index."""
        start, step = self.start, self.step
        return index[0] * step + start
