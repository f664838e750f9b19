"""Lookups by computed indices: gather takes slices of a tensor, gather_elements one element per result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.dims import bounds
from ...base.dtypes import S64
from ...base.size_limits import covers
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.axis_attributes import AxisAttr
from ..ir.computation import Index, Read
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.registry import register
from .movement import Movement


def check_indices(op: Op, indices: LogicalTensor) -> None:
    """Raise UserError in the name of `op` unless indices are integers."""
    if indices.dtype.kind not in ("int", "uint"):
        raise op.rule("indices must be integers", str(indices.dtype), "insert a cast")


def from_front(indices: Array, size: int) -> Array:
    """Indices into an axis of `size` elements, of which negative ones count from the back, as s64 from the front."""
    wide = indices.astype(np.int64)
    return np.where(wide < 0, wide + size, wide)


class _Lookup(Movement):
    """Base: indices are integers, negative ones count from the back; those outside are clamped to the nearest valid
    one."""

    x = Operand()
    indices = Operand("integers")
    axis = AxisAttr("axis that indices select from", default=0)

    def _check(self, x: LogicalTensor, indices: LogicalTensor) -> None:
        check_indices(self, indices)
        if x.plain_dims[self.axis] == 0 and not indices.is_empty:
            raise self.rule(
                f"axis {self.axis} must have elements to gather",
                f"{x} and {indices.elements} indices",
            )

    def _position(self, index: Expr, last: Expr | int) -> Expr:
        """An index as one of the axis, whose last one is given."""
        raw = t.cast(index, S64)
        wrapped = t.select(raw < 0, raw + self.x.details.plain_dims[self.axis], raw)
        return t.minimum(t.maximum(wrapped, 0), last)


@register("gather")
class Gather(_Lookup):
    """np.take: axis `axis` of x replaced by the axes of `indices`.

    Indices are integers, negative ones count from the back; out-of-range ones are clamped to the nearest valid one.
    """

    def result_dims(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """x's shape with the shape of `indices` in place of the axis."""
        x, indices = inputs
        self._check(x, indices)
        return (*x.plain_dims[: self.axis], *indices.plain_dims, *x.plain_dims[self.axis + 1 :])

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.take on wrapped and clamped indices."""
        x, indices = inputs
        position = from_front(indices, x.shape[self.axis])
        return [np.take(x, position, axis=self.axis, mode="clip")]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The element of x at the loaded index."""
        axis, (x, indices) = self.axis, (y.details for y in self.inputs)
        size, behind = x.plain_dims[axis], axis + indices.rank
        # Where both may be none, no index is read unless there is an element.
        may_be_none = any(not bounds(one)[0] for one in indices.plain_dims)
        last = t.maximum(t.as_expr(size - 1), 0) if may_be_none else max(size - 1, 0)
        position = self._position(reads[1](index[axis:behind]), last)
        return reads[0]((*index[:axis], position, *index[behind:]))


@register("gather_elements")
class GatherElements(_Lookup):
    """out[i0, .., i_axis, ..] = x[i0, .., indices[i0, ..], ..] along `axis`; the shape of `indices`.

    Indices are integers, negative ones count from the back; out-of-range ones are clamped to the nearest valid one. The
    other axes of `indices` may be shorter than those of x.
    """

    def result_dims(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """The shape of `indices`."""
        x, indices = inputs
        check_indices(self, indices)
        if not covers_others(x, indices, self.axis):
            raise self.rule(
                "indices must have x's rank and no longer axis than x has, the gathered one aside",
                f"{x} and {indices}",
            )
        self._check(x, indices)
        return indices.plain_dims

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.take_along_axis on wrapped and clamped indices."""
        x, indices = inputs
        axis, size = self.axis, x.shape[self.axis]
        if not indices.size:
            return [np.zeros(indices.shape, x.dtype)]
        position = np.clip(from_front(indices, size), 0, max(size - 1, 0))
        part = tuple(slice(None) if i == axis else slice(d) for i, d in enumerate(indices.shape))
        return [np.take_along_axis(x[part], position, axis)]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The element of x at the loaded index of the axis and the output's own index elsewhere."""
        axis = self.axis
        last = max(self.x.details.plain_dims[axis] - 1, 0)
        return reads[0]((*index[:axis], self._position(reads[1](index), last), *index[axis + 1 :]))


def covers_others(x: LogicalTensor, indices: LogicalTensor, axis: int) -> bool:
    """Return whether indices have the rank of x, and no longer axis but `axis`."""
    others = zip(x.plain_dims, indices.plain_dims, strict=False)
    fits = all(i == axis or covers(full, size) for i, (full, size) in enumerate(others))
    return indices.rank == x.rank and fits
