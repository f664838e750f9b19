"""pad: elements added around a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dims import Size, bounds, maximum
from ...base.dtypes import DType
from ...base.size_limits import at_least
from ...base.size_queries import may_exceed
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.attributes import AttributeOwner, ChoiceAttr, NumberAttr
from ..ir.axis_attributes import SizesAttr, rank_of_first
from ..ir.computation import Index, Read
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.registry import register
from .movement import Movement

MODES = ("constant", "reflect", "edge", "wrap")


class _ElementAttr(NumberAttr):
    """A number, kept as the element of x's dtype it is rounded to."""

    def check(self, op: AttributeOwner, value: Any) -> float:
        """The rounded number as an int, float or bool."""
        return _rounded(super().check(op, value), op.inputs[0].details.dtype)

    def default_of(self, op: AttributeOwner) -> float:
        """The default as an element of x."""
        return _rounded(super().default_of(op), op.inputs[0].details.dtype)


def _rounded(value: float, dtype: DType) -> float:
    with np.errstate(all="ignore"):
        element = np.asarray(value).astype(dtype.numpy)
    kind = float if dtype.is_float else bool if dtype.kind == "bool" else int
    return kind(element)


@register("pad")
class Pad(Movement):
    """Elements added around x.

    mode "constant" adds `value`, "edge" repeats the border, "reflect" mirrors at the border without repeating it,
    "wrap" continues at the other end.
    """

    x = Operand()
    before = SizesAttr("elements to add per axis; negative numbers crop", count=rank_of_first)
    after = SizesAttr("as before", count=rank_of_first)
    mode = ChoiceAttr("how the added elements are chosen", *MODES)
    value = _ElementAttr("value of added elements in mode constant", default=0)

    def result_dims(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """Every size plus what is added before and after."""
        dims, before, after = inputs[0].plain_dims, self.before, self.after
        for axis, (size, b, a) in enumerate(zip(dims, before, after, strict=True)):
            most: Size | None = None if self.mode == "constant" or size else 0
            most = maximum(size - 1, 0) if self.mode == "reflect" else most
            is_long_enough = most is None or (_reaches(most, a) and _reaches(most, b))
            if not (is_long_enough and at_least(size + b + a, 0)):
                raise self.rule(
                    f"axis {axis} of {size} elements must be long enough for mode {self.mode}",
                    f"{b} before and {a} after",
                )
        return tuple(size + b + a for size, b, a in zip(dims, before, after, strict=True))

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The element each output index comes from, or the value."""
        (x,) = inputs
        inside = np.ones((1,) * x.ndim, bool)
        for axis, (size, out, before) in enumerate(self._axes()):
            position = np.arange(out) - before
            shape = [1] * x.ndim
            shape[axis] = out
            inside = inside & ((position >= 0) & (position < size)).reshape(shape)
            if self.mode == "reflect" and size > 1:
                position = (size - 1) - np.abs((size - 1) - np.abs(position))
            if self.mode == "wrap" and size:
                position = position % size
            if not size:
                x = np.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)
            x = x.take(position, axis=axis, mode="clip")
        return [
            np.where(inside, x, np.asarray(self.value).astype(x.dtype))
            if self.mode == "constant"
            else x
        ]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The input at the clamped, mirrored or wrapped index, or the padding value."""
        axes, mode = self._axes(), self.mode
        empty = any(size == 0 for size, _, _ in axes)
        value = t.const(self.value, self.inputs[0].details.dtype.accumulator)
        if empty and mode == "constant":
            return value
        position, inside = [], []
        for i, (size, out, before) in zip(index, axes, strict=True):
            here = i - before
            if may_exceed(before, 0):
                inside.append(here >= 0)
            if may_exceed(out - before, size):
                inside.append(here < size)
            position.append(_clamped(here, size, out, before, mode))
        result = reads[0](tuple(position))
        for condition in inside if mode == "constant" else ():
            result = t.select(condition, result, value)
        return result

    def _axes(self) -> list[tuple[int, int, int]]:
        """(input size, output size, elements before) of each axis."""
        source, result = self.inputs[0].details.plain_dims, self.outputs[0].details.plain_dims
        return list(zip(source, result, self.before, strict=True))


def _reaches(most: Size, width: Size) -> bool:
    """Return whether a border fits; one of dynamic width must fit in some runs."""
    return at_least(most, width) if isinstance(width, int) else bounds(most - width)[1] >= 0


def _clamped(here: Expr, size: int, out: int, before: int, mode: str) -> Expr:
    """Index `here` clamped into [0, size), unchanged if it cannot be outside."""
    if mode == "reflect":
        if may_exceed(before, 0):
            here = t.maximum(here, 0 - here)
        if may_exceed(out - before, size):
            here = t.minimum(here, 2 * (size - 1) - here)
        is_short = may_exceed(before + 1, size) or may_exceed(out - before + 1, 2 * size)
        return t.maximum(t.minimum(here, size - 1), 0) if is_short else here
    if mode == "wrap":
        behind = out - before - size
        if may_exceed(before, size) or may_exceed(behind, size):
            return here % size
        if may_exceed(before, 0):
            here = t.select(here < 0, here + size, here)
        wrapped = t.select(here >= size, here - size, here)
        return wrapped if may_exceed(behind, 0) else here
    here = t.minimum(here, size - 1) if may_exceed(out - before, size) else here
    return t.maximum(here, 0) if may_exceed(before, 0) or may_exceed(1, size) else here
