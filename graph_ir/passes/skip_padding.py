"""Compute convolutions whose windows lie mostly in the padding without the elements that are always padding."""

from __future__ import annotations

import itertools
import math

import numpy as np

from ...base.records import dataclass
from ..ir.graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.convolution import Convolution
from ..ops.window import Window
from ..rewriting.rewrite import rewrite
from ..rewriting.values import constant_value
from ..schedule.context import LowerContext

WORTH = 0.5
"""Share of the multiply-adds that must be gone: the parts are smaller than the whole, and need copies."""

MOST_PARTS = 9
"""Three along each of two axes: before, in and behind the middle."""


@dataclass(frozen=True)
class Run:
    """`count` window positions of an axis from `first` on, whose elements `tap` to `tap + taps - 1` may be inside."""

    first: int
    count: int
    tap: int
    taps: int


def skip_padding(graph: Graph, ctx: LowerContext) -> bool:
    """Split a convolution into regions of its result whose windows have the same elements inside the image.

    %y = convolution(%x[1,960,16,16], %w[256,960,3,3], dilations=(24, 24), before=(24, 24), after=(24, 24))
    ->
    %c = slice(%w, starts=(0, 0, 1, 1), sizes=(256, 960, 1, 1)); %y = convolution(%x, %c)

    With a dilation of 12, the image of 16 x 16 has nine regions, with one to four of the nine elements each.
    Weights of floats must be known and finite: padding times an infinity or NaN is NaN.
    Requires: topological order, plain layouts.
    Ensures: topological order.
    """
    return rewrite(graph, {"convolution": (_in_regions,)})


def _in_regions(graph: Graph, op: Op) -> GraphTensor | None:
    assert isinstance(op, Convolution)
    x, out = op.inputs[0].details.plain_dims, op.outputs[0].details
    window = op.window
    if not out.elements or not any(window.before) and not any(e > 0 for e in window.ends(x[2:])):
        return None
    if not _is_finite(op.inputs[1]):
        return None
    found = [runs(window, axis, x[2 + axis], n) for axis, n in enumerate(out.plain_dims[2:])]
    axes = [some for some in found if some is not None]
    if len(axes) < len(found):
        return None
    done = math.prod(sum(run.count * run.taps for run in some) for some in axes)
    whole = math.prod(out.plain_dims[2:]) * math.prod(window.kernel)
    parts = math.prod(map(len, axes))
    if parts > MOST_PARTS or done == whole or (parts > 1 and done > WORTH * whole):
        return None
    make = Composer(graph, op)
    regions = [_region(make, op, region) for region in itertools.product(*axes)]
    for axis in range(len(axes) - 1, -1, -1):
        count = len(axes[axis])
        if count > 1:
            groups = [regions[i : i + count] for i in range(0, len(regions), count)]
            regions = [make("concat", *group, axis=2 + axis) for group in groups]
    return regions[0]


def _is_finite(weights: GraphTensor) -> bool:
    """Whether every product with padding is zero: of integers, and of constants that are numbers."""
    value = constant_value(weights)
    if value is None:
        return not weights.details.dtype.is_float
    return bool(np.isfinite(value.astype(np.float64)).all())


def runs(window: Window, axis: int, size: int, positions: int) -> list[Run] | None:
    """Window positions of an axis of `size` elements in runs that need the same elements of the window.

    None where some window has no element inside, whose result no other convolution has.
    """
    kernel, dilation = window.kernel[axis], window.dilations[axis]
    start = np.arange(positions)[:, None] * window.strides[axis] - window.before[axis]
    index = start + np.arange(kernel) * dilation
    inside = (index >= 0) & (index < size)
    found: list[Run] = []
    for position, row in enumerate(inside):
        (used,) = np.nonzero(row)
        if not len(used):
            return None
        tap, taps = int(used[0]), int(used[-1] - used[0]) + 1
        last = found[-1] if found else None
        if last is not None and (last.tap, last.taps) == (tap, taps):
            found[-1] = Run(last.first, last.count + 1, tap, taps)
        else:
            found.append(Run(position, 1, tap, taps))
    return found


def _region(make: Composer, op: Convolution, region: tuple[Run, ...]) -> GraphTensor:
    """The convolution at a box of window positions, with the elements of the window that these need."""
    x, w, window = *op.inputs, op.window
    starts, sizes, before, after = [], [], [], []
    for axis, run in enumerate(region):
        step, dilation = window.strides[axis], window.dilations[axis]
        begin = run.first * step + run.tap * dilation - window.before[axis]
        end = begin + (run.count - 1) * step + (run.taps - 1) * dilation + 1
        size = x.details.plain_dims[2 + axis]
        low, high = min(max(begin, 0), size - 1), max(min(end, size), 1)
        starts.append(low)
        sizes.append(high - low)
        before.append(low - begin)
        after.append(end - high)
    image = _box(make, x, starts, sizes)
    weights = _box(make, w, [run.tap for run in region], [run.taps for run in region])
    attrs = {**op.attrs, "before": tuple(before), "after": tuple(after)}
    return make("convolution", image, weights, **attrs)


def _box(make: Composer, x: GraphTensor, starts: list[int], sizes: list[int]) -> GraphTensor:
    """x[:, :, starts : starts + sizes], itself if that is all of it; constants stay constants."""
    dims = x.details.plain_dims
    if tuple(sizes) == dims[2:]:
        return x
    value = constant_value(x)
    if value is not None:
        pairs = zip(starts, sizes, strict=True)
        box = value[(slice(None), slice(None), *(slice(a, a + n) for a, n in pairs))]
        return make.constant(np.ascontiguousarray(box))
    ones = (1,) * len(dims)
    return make("slice", x, starts=(0, 0, *starts), steps=ones, sizes=(*dims[:2], *sizes))
