"""reshape: the same elements in row-major order under another shape."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...base.size_limits import check_equal
from ...base.size_queries import sizes_text
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.axis_attributes import SizesAttr
from ..ir.computation import Index, Read
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.registry import register
from ..ir.reshape_layout import reshape_groups
from .movement import Movement


@register("reshape")
class Reshape(Movement):
    """The same elements in row-major order under another shape."""

    x = Operand()
    shape = SizesAttr("sizes of the result, all known")

    def result_dims(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """The wanted shape, which has as many elements."""
        shape = self.shape
        elements = math.prod(shape)
        if any(size < 0 for size in shape) or elements != inputs[0].elements:
            check_equal(inputs[0].elements, elements)
            raise self.rule(
                "shape must have as many elements as the input",
                f"{sizes_text(inputs[0].plain_dims)} and {sizes_text(shape)}",
            )
        return shape

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.reshape."""
        return [inputs[0].reshape(self.outputs[0].details.plain_dims)]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """Each group of axes that is split or merged is linearized and split again."""
        source, result = self.inputs[0].details.plain_dims, self.outputs[0].details.plain_dims
        groups = list(reshape_groups(source, result)) if 0 not in source else []
        position: list[Expr] = [t.as_expr(0)] * len(source)
        for old, new in groups:
            flat = _linear([index[axis] for axis in new], [result[axis] for axis in new])
            sizes = [source[axis] for axis in old]
            for axis, part in zip(old, _split(flat, sizes), strict=True):
                position[axis] = part
        return reads[0](tuple(position))


def _linear(index: Sequence[Expr], sizes: Sequence[int]) -> Expr:
    flat = index[0]
    for i, size in zip(index[1:], sizes[1:], strict=True):
        flat = flat * size + i
    return flat


def _split(flat: Expr, sizes: Sequence[int]) -> list[Expr]:
    parts: list[Expr] = []
    for size in reversed(sizes[1:]):
        parts.append(flat % size)
        flat = flat // size
    return [flat, *reversed(parts)]
