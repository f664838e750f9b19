"""Compute convolutions and pools without the elements of their windows that see nothing but padding."""

from __future__ import annotations

import itertools
import math

import numpy as np

from ...base.dims import is_known
from ...base.records import dataclass
from ..ir.graph import Array, Graph, GraphTensor
from ..ops.compose import Composer
from ..ops.convolution import Convolution
from ..ops.pool import WindowReduce
from ..ops.window import Window
from ..rewriting.rewrite import Rules, rewrite
from ..rewriting.values import is_finite
from ..schedule.context import LowerContext

WORTH = 0.5
"""Share of the multiply-adds that must be gone: the parts are smaller than the whole, and need copies."""

MAX_PARTS = 9
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
    The window of a pool is cut to the elements that some position has inside the image, as padding changes nothing:
    one of 200,001 x 200,001 elements over an image of 4 x 4 becomes one of 7 x 7.
    Requires: topological order, plain layouts.
    Ensures: topological order.
    """
    pools: Rules = {f"{kind}_pool": (_cut_window,) for kind in ("max", "min", "sum", "prod")}
    return rewrite(graph, {"convolution": (_in_regions,), **pools})


def _in_regions(graph: Graph, op: Convolution) -> GraphTensor | None:
    x, out = op.inputs[0].details.plain_dims, op.outputs[0].details
    window = op.window
    if not is_known(*x[2:]):
        return None  # which elements see nothing but padding depends on the sizes
    if out.is_empty or not any(window.before) and not any(e > 0 for e in window.ends(x[2:])):
        return None
    if not is_finite(op.inputs[1]):
        return None
    found = [runs(window, axis, x[2 + axis], n) for axis, n in enumerate(out.plain_dims[2:])]
    axes = [some for some in found if some is not None]
    if len(axes) < len(found):
        return None
    done = math.prod(sum(run.count * run.taps for run in some) for some in axes)
    whole = math.prod(out.plain_dims[2:]) * math.prod(window.kernel)
    parts = math.prod(map(len, axes))
    if parts > MAX_PARTS or done == whole or (parts > 1 and done > WORTH * whole):
        return None
    make = Composer(graph, op)
    regions = [_region(make, op, region) for region in itertools.product(*axes)]
    for axis in range(len(axes) - 1, -1, -1):
        count = len(axes[axis])
        if count > 1:
            groups = [regions[i : i + count] for i in range(0, len(regions), count)]
            regions = [make("concat", *group, axis=2 + axis) for group in groups]
    return regions[0]


def runs(window: Window, axis: int, size: int, positions: int) -> list[Run] | None:
    """Window positions of an axis of `size` elements in runs that need the same elements of the window.

    None where some window has no element inside, whose result no other convolution has.
    """
    first, last = _taps_inside(window, axis, size, positions)
    if (first > last).any():
        return None
    changes = (first[1:] != first[:-1]) | (last[1:] != last[:-1])
    begins = [0, *(np.flatnonzero(changes) + 1).tolist(), positions]
    return [
        Run(begin, end - begin, int(first[begin]), int(last[begin] - first[begin]) + 1)
        for begin, end in itertools.pairwise(begins)
    ]


def _taps_inside(window: Window, axis: int, size: int, positions: int) -> tuple[Array, Array]:
    """The first and the last element of the window inside an axis of `size` elements at each position, s64.

    The last one is before the first where none is.
    """
    dilation = window.dilations[axis]
    start = np.arange(positions, dtype=np.int64) * window.strides[axis] - window.before[axis]
    first = np.maximum(-(start // dilation), 0)
    last = np.minimum((size - 1 - start) // dilation, window.kernel[axis] - 1)
    return first, last


def _cut_window(graph: Graph, op: WindowReduce) -> GraphTensor | None:
    """The pool with the elements of its window that some position has inside the image."""
    window, x, out = op.window, op.inputs[0].details, op.outputs[0].details
    lead = x.rank - window.rank
    sizes, counts = x.plain_dims[lead:], out.plain_dims[lead:]
    if not window.is_padded or not all(isinstance(n, int) for n in (*sizes, *counts)):
        return None
    if out.is_empty:
        return None
    make = Composer(graph, op)
    cuts = []
    for axis, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        cut = _cut_axis(window, axis, size, count)
        if cut is None:
            return make("broadcast", make.scalar(op.fill, out.dtype), shape=out.plain_dims)
        cuts.append(cut)
    kernel, before, after = (tuple(numbers) for numbers in zip(*cuts, strict=True))
    if kernel == window.kernel:
        return None
    attrs = {key: value for key, value in op.attrs.items() if key != "ceil_mode"}
    attrs |= {"kernel": kernel, "before": before, "after": after}
    return make(op.op_name, op.inputs[0], **attrs)


def _cut_axis(window: Window, axis: int, size: int, count: int) -> tuple[int, int, int] | None:
    """The window's elements, padding before and after along an axis; None where no window reaches into the image."""
    firsts, lasts = _taps_inside(window, axis, size, count)
    some = firsts <= lasts
    if not some.any():
        return None
    step, dilation, before = window.strides[axis], window.dilations[axis], window.before[axis]
    first = min(int(firsts[some].min()), before // dilation)
    before -= first * dilation
    taps = int(lasts[some].max()) - first + 1
    # Windows end where they did, or so close before it that no further one fits in.
    taps = max(taps, (size + before - count * step - 1) // dilation + 2)
    end = (count - 1) * step + (taps - 1) * dilation + 1
    return taps, before, max(end - before - size, 0)


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
    return make.folded("slice", x, starts=(0, 0, *starts), sizes=(*dims[:2], *sizes))
