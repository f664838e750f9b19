"""update_slice: replaces a part of a tensor at a position given at run time; update_in_place: without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ...base.dtypes import S64
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.axis_attributes import IntsAttr
from ..ir.computation import Index, Read
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand, VariadicOperand
from ..ir.registry import register
from .movement import Movement


class _Update(Op):
    """Base: x with a box replaced by the update, beginning at `start` along each of `axes`."""

    x = Operand()
    update = Operand("x's dtype and rank")
    start = VariadicOperand("s64[], or s64 [n] of x [n, ...]")
    axes = IntsAttr("axis of each start")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The type of x. Raise UserError if the update does not fit into it."""
        axes = self.axes
        if len(inputs) != 2 + len(axes):
            rule = f"inputs must be x, update and {len(axes)} starts"
            raise self.rule(rule, f"{len(inputs)} inputs")
        x, update, *starts = inputs
        if x.dtype != update.dtype or x.rank != update.rank:
            raise self.rule("x and update must have one dtype and rank", f"{x} and {update}")
        if len(set(axes)) != len(axes) or any(not 0 <= axis < x.rank for axis in axes):
            raise self.rule(f"axes must be distinct and in [0, {x.rank})", str(list(axes)))
        for axis, (whole, part) in enumerate(zip(x.plain_dims, update.plain_dims, strict=True)):
            if part > whole or (part != whole and axis not in axes):
                raise self.rule(f"the update must fit into axis {axis}", f"{part} in {whole}")
        for start in starts:
            each = start.plain_dims == x.plain_dims[:1] and 0 not in axes
            if start.dtype != S64 or not (each or start.plain_dims == ()):
                rule = "starts must be s64[], or s64 with one for each of axis 0"
                raise self.rule(rule, str(start))
        return Op.infer(self, inputs)

    def reference(self, inputs: list[Array]) -> list[Array]:
        """A copy of x, written to."""
        x, update, *starts = inputs
        result = x.copy()
        if not any(start.ndim for start in starts):
            _write_box(result, update, self.axes, starts)
            return [result]
        for i in range(len(x)):  # a box for each of axis 0
            own = [s[i] if s.ndim else s for s in starts]
            _write_box(result[i : i + 1], update[i : i + 1], self.axes, own)
        return [result]


def _write_box(result: Array, update: Array, axes: Sequence[int], starts: Sequence[Array]) -> None:
    position = [slice(None)] * result.ndim
    for axis, start in zip(axes, starts, strict=True):
        begin = min(max(int(start), 0), result.shape[axis] - update.shape[axis])
        position[axis] = slice(begin, begin + update.shape[axis])
    result[tuple(position)] = update


def box_begins(op: _Update, starts: Sequence[Read], first: Index) -> dict[int, Expr]:
    """Return the offset of the update inside x along each axis it moves on, at `first` of axis 0."""
    whole, part = (x.details.plain_dims for x in op.inputs[:2])
    found = {}
    for axis, start, given in zip(op.axes, starts, op.inputs[2:], strict=True):
        begin = start(first if given.details.rank else ())
        found[axis] = t.minimum(t.maximum(begin, 0), whole[axis] - part[axis])
    return found


@register("update_slice")
class UpdateSlice(_Update, Movement):
    """x with a box replaced by the update, beginning at `start` along each of `axes`.

    Starts are clamped so that the box lies inside x. A start may be one number, or one for each of axis 0.
    """

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The update's element if the index is inside the box, else that of x."""
        sizes = self.inputs[1].details.plain_dims
        if 0 in sizes:
            return reads[0](index)
        inside: Expr | None = None
        position = list(index)
        for axis, begin in box_begins(self, reads[2:], index[:1]).items():
            here = index[axis] - begin
            low, high = here >= 0, here < sizes[axis]
            covered = low & high
            inside = covered if inside is None else inside & covered
            position[axis] = t.minimum(t.maximum(here, 0), sizes[axis] - 1)
        new = reads[1](tuple(position))
        return new if inside is None else t.select(inside, new, reads[0](index))


@register("update_in_place")
class UpdateInPlace(_Update):
    """An update_slice whose result shares memory with x: only the box is written.

    Created by the pass of the same name, never by a frontend: the lowering must ensure that memory is shared.
    """

    kind: ClassVar[str] = "loop"

    def get_gflop(self) -> float:
        """One operation per element of the update."""
        return self.inputs[1].details.typical.elements / 1e9
