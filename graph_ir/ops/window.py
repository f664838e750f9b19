"""Sliding windows over the last axes of a tensor: geometry, NumPy view and loads, for convolution and pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.dims import Size, UndecidedSize, bounds, ceil_quotient, floor_quotient, minimum
from ...base.records import dataclass
from ...base.size_limits import at_least
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.attributes import BoolAttr
from ..ir.axis_attributes import IntsAttr
from ..ir.computation import Index, Read
from ..ir.graph import Array, GraphTensor, Op
from .compose import Composer


@dataclass(frozen=True)
class Window:
    """One entry per axis: elements of the window, its steps, the distance of its elements, elements of padding.

    `ceil_mode`: a last window that begins inside the input or the padding before it counts even if it ends outside.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    ceil_mode: bool = False

    @property
    def rank(self) -> int:
        """Number of axes it slides over."""
        return len(self.kernel)

    @property
    def extents(self) -> tuple[int, ...]:
        """Elements from the first to the last one of a window, per axis."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def is_padded(self) -> bool:
        """Return whether a window may hold padding."""
        return any((*self.before, *self.after)) or self.ceil_mode

    def output_sizes(self, sizes: Sequence[Size]) -> tuple[Any, ...]:
        """Number of window positions per axis, for a checked window."""
        found = []
        for size, extent, step, before, after in zip(
            sizes, self.extents, self.strides, self.before, self.after, strict=True
        ):
            room = size + before + after - extent
            quotient = ceil_quotient if self.ceil_mode else floor_quotient
            count = quotient(room, step) + 1
            found.append(_inside(count, step, size + before) if self.ceil_mode else count)
        return tuple(found)

    def ends(self, sizes: Sequence[Size]) -> tuple[Any, ...]:
        """Padding elements after the input that the last window covers, per axis (negative: unused input elements)."""
        counts = self.output_sizes(sizes)
        return tuple(
            (n - 1) * s + e - b - size
            for n, s, e, b, size in zip(
                counts, self.strides, self.extents, self.before, sizes, strict=True
            )
        )

    def stored_ends(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        """Elements to store behind the input so that no window leaves it: for all values of dynamic sizes."""
        return tuple(max(bounds(end)[1], 0) for end in self.ends(sizes))

    def view(self, x: Array, fill: Any) -> Array:
        """[..., positions..., kernel...] of x [..., sizes...], padded with `fill`; a view of a padded copy."""
        lead, sizes = x.ndim - self.rank, x.shape[x.ndim - self.rank :]
        counts = self.output_sizes(sizes)
        after = self.stored_ends(sizes)
        pads = [(0, 0)] * lead + list(zip(self.before, after, strict=True))
        padded = np.pad(x, pads, constant_values=fill) if np.any(pads) else np.ascontiguousarray(x)
        steps = padded.strides[lead:]
        strides = (
            *padded.strides[:lead],
            *(s * step for s, step in zip(steps, self.strides, strict=True)),
            *(s * step for s, step in zip(steps, self.dilations, strict=True)),
        )
        shape = (*x.shape[:lead], *counts, *self.kernel)
        return np.lib.stride_tricks.as_strided(padded, shape, strides, writeable=False)

    def load(
        self, read: Read, lead: Index, positions: Index, r: Index, sizes: Sequence[int], fill: Value
    ) -> Expr:
        """Element `r` of the window at `positions` of a tensor [lead..., sizes...]; `fill(value)` outside.

        The index is clamped into the tensor, so that nothing is read out of bounds.
        """
        index, inside = [], []
        for axis, size in enumerate(sizes):
            at = positions[axis] * self.strides[axis] + r[axis] * self.dilations[axis]
            at = at - self.before[axis]
            clamped = at
            if self.before[axis] > 0:
                inside.append(at >= 0)
                clamped = t.maximum(clamped, 0)
            if self.stored_ends(sizes)[axis] > 0:
                inside.append(at < size)
                clamped = t.minimum(clamped, t.as_expr(size - 1))
            index.append(clamped)
        value = read((*lead, *index))
        result = value
        for condition in inside:
            result = t.select(condition, result, fill(value))
        return result


def _inside(count: Size, step: int, size: Size) -> Size:
    """The number of windows without one that would begin in the padding after the input."""
    try:
        return count - 1 if (count - 1) * step >= size else count
    except UndecidedSize:
        return minimum(count, ceil_quotient(size, step))


Value = Callable[[Expr], Expr]


def _window_rank(op: Any) -> int:
    count: int = op.window_rank
    return count


class WindowAttr(IntsAttr):
    """A list of integers, one for each axis a window slides over; the default is one for all."""

    def __init__(self, meaning: str, *, default: int, least: int | None = None) -> None:
        super().__init__(
            meaning, default=default, least=least, count=_window_rank, entries="window axes"
        )


class Windowed(Op):
    """Base of ops with a window: its geometry, one entry per axis it slides over."""

    strides = WindowAttr("distance of neighboring windows", default=1, least=1)
    dilations = WindowAttr("distance of neighboring elements of a window", default=1, least=1)
    before = WindowAttr("elements of padding before the first", default=0, least=0)
    after = WindowAttr("elements of padding after the last", default=0, least=0)

    @property
    def window_rank(self) -> int:
        """The number of axes the window slides over: known from operands, or from an attribute declared
        before these."""
        raise NotImplementedError


class KernelWindow(Windowed):
    """Base of ops whose window has its size from an attribute and slides over the last axes of the first operand."""

    kernel = IntsAttr("size of the window over the last axes", least=1)
    ceil_mode = BoolAttr("include a last window that starts inside and ends outside")

    @property
    def window_rank(self) -> int:
        """Entries of the kernel."""
        return len(self.kernel)

    @property
    def window(self) -> Window:
        """Geometry over the last axes."""
        kernel, x = self.kernel, self.inputs[0].details
        if not 0 < len(kernel) <= x.rank:
            rule = "kernel must have one entry or more, and no more than x has axes"
            raise self.rule(rule, f"{list(kernel)} and {x}")
        return window_of(self, kernel, x.plain_dims[x.rank - len(kernel) :], self.ceil_mode)


def window_of(
    op: Windowed, kernel: Sequence[int], sizes: Sequence[int], ceil_mode: bool = False
) -> Window:
    """The window of an op's attributes over axes of `sizes`; raise UserError if it does not fit."""
    count = len(kernel)
    if any(k < 1 for k in kernel):
        raise op.rule("kernel must be 1 or more", str(list(kernel)))
    if ceil_mode:
        kernel = [
            _cropped(op, axis, k, size)
            for axis, (k, size) in enumerate(zip(kernel, sizes, strict=True))
        ]
    window = Window(tuple(kernel), op.strides, op.dilations, op.before, op.after, ceil_mode)
    for axis, size in enumerate(sizes):
        if not at_least(size, 1):
            raise op.rule("the axes a window slides over must have elements", str(list(sizes)))
        extent, before, after = window.extents[axis], window.before[axis], window.after[axis]
        if not at_least(size + before + after, extent):
            raise op.rule(
                f"the window must fit into the padded input on axis {axis} of {count}",
                f"{extent} elements in {before} + {size} + {after}",
            )
    return window


def _cropped(op: Windowed, axis: int, kernel: int, size: Size) -> int:
    """The elements that the only window of `ceil_mode` has inside, if it is larger than the padded input."""
    if not isinstance(size, int) or op.dilations[axis] != 1:
        return kernel
    room = size + op.before[axis] + op.after[axis]
    return room if 0 < room < kernel < room + op.strides[axis] else kernel


def padded(make: Composer, x: GraphTensor, window: Window, fill: int | float | bool) -> GraphTensor:
    """x with its padding materialized."""
    dims = x.details.plain_dims
    lead = (0,) * (len(dims) - window.rank)
    after = window.stored_ends(dims[len(lead) :])
    if not any((*window.before, *after)):
        return x
    return make("pad", x, before=(*lead, *window.before), after=(*lead, *after), value=fill)
