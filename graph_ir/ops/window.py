"""Sliding windows over the last axes of a tensor: geometry, NumPy view and loads, for convolution and pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.computation import Index, Read
from ..ir.graph import Array, Op

ATTRS = ("strides", "dilations", "before", "after")


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
        """Whether a window may hold padding."""
        return any((*self.before, *self.after)) or self.ceil_mode

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Number of window positions per axis, for a checked window."""
        found = []
        for size, extent, step, before, after in zip(
            sizes, self.extents, self.strides, self.before, self.after, strict=True
        ):
            room = size + before + after - extent
            count = (-(-room // step) if self.ceil_mode else room // step) + 1
            if self.ceil_mode and (count - 1) * step >= size + before:
                count -= 1  # that window would begin in the padding after the input
            found.append(count)
        return tuple(found)

    def ends(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Padding elements after the input that the last window covers, per axis (negative: unused input elements)."""
        counts = self.output_sizes(sizes)
        return tuple(
            (n - 1) * s + e - b - size
            for n, s, e, b, size in zip(
                counts, self.strides, self.extents, self.before, sizes, strict=True
            )
        )

    def view(self, x: Array, fill: Any) -> Array:
        """[..., positions..., kernel...] of x [..., sizes...], padded with `fill`; a view of a padded copy."""
        lead, sizes = x.ndim - self.rank, x.shape[x.ndim - self.rank :]
        counts = self.output_sizes(sizes)
        after = [max(end, 0) for end in self.ends(sizes)]
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
            at = t.add(
                t.mul(positions[axis], self.strides[axis]), t.mul(r[axis], self.dilations[axis])
            )
            at = t.sub(at, self.before[axis])
            clamped = at
            if self.before[axis] > 0:
                inside.append(t.compare("ge", at, 0))
                clamped = t.maximum(clamped, 0)
            if self.ends(sizes)[axis] > 0:
                inside.append(t.compare("lt", at, size))
                clamped = t.minimum(clamped, size - 1)
            index.append(clamped)
        value = read((*lead, *index))
        result = value
        for condition in inside:
            result = t.select(condition, result, fill(value))
        return result


Value = Callable[[Expr], Expr]


def window_of(op: Op, kernel: Sequence[int], sizes: Sequence[int]) -> Window:
    """The window given by an op's attributes over axes of `sizes`; UserError if it does not fit.

    attrs, all optional: `strides`, `dilations` (default 1), `before`, `after` (default 0), `ceil_mode` (False).
    """
    count = len(kernel)
    given = {name: _integers(op, name, count, 1 if name in ATTRS[:2] else 0) for name in ATTRS}
    window = Window(tuple(kernel), **given, ceil_mode=bool(op.attrs.get("ceil_mode", False)))
    for name, values, least in (
        ("kernel", window.kernel, 1),
        ("strides", window.strides, 1),
        ("dilations", window.dilations, 1),
        ("before", window.before, 0),
        ("after", window.after, 0),
    ):
        if any(value < least for value in values):
            raise op.rule(f"{name} must be {least} or more", str(list(values)))
    for axis, size in enumerate(sizes):
        if size < 1:
            raise op.rule("the axes a window slides over must have elements", str(list(sizes)))
        extent, before, after = window.extents[axis], window.before[axis], window.after[axis]
        if extent > size + before + after:
            raise op.rule(
                f"the window must fit into the padded input on axis {axis} of {count}",
                f"{extent} elements in {before} + {size} + {after}",
            )
    return window


def _integers(op: Op, name: str, count: int, default: int) -> tuple[int, ...]:
    value = op.attrs.get(name)
    if value is None:
        return (default,) * count
    listed = isinstance(value, (tuple, list))
    if not listed or not all(isinstance(i, (int, np.integer)) for i in value):
        raise op.rule(f"attribute '{name}' must be a list of integers", repr(value))
    if len(value) != count:
        raise op.rule(
            f"{name} must have one entry for each of the {count} window axes", str(list(value))
        )
    return tuple(int(i) for i in value)
