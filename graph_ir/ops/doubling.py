"""Reductions over large windows in O(log window) steps per element, from runs of 1, 2, 4, ... elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base.dims import Size
from ...base.records import dataclass
from ..ir.graph import GraphTensor
from .compose import Composer
from .window import Window

Parts = Sequence[GraphTensor]
Combine = Callable[[Parts, Parts], Parts]
Sliced = Callable[[GraphTensor, int, int, int], GraphTensor]


@dataclass(frozen=True)
class Positions:
    """`count` windows of `size` elements along an axis: the distance of windows, and that of their elements."""

    size: int
    count: Any
    stride: int = 1
    dilation: int = 1


def positions_of(window: Window, counts: Sequence[Size]) -> list[Positions]:
    """Return the windows along each axis, of which there are `counts`."""
    columns = zip(window.kernel, counts, window.strides, window.dilations, strict=True)
    return [Positions(*column) for column in columns]


def axis_sliced(
    make: Composer, axis: int, x: GraphTensor, begin: int, number: int, step: int
) -> GraphTensor:
    """Return `number` elements of an axis from `begin` on."""
    dims = x.details.plain_dims
    if (begin, number, step) == (0, dims[axis], 1):
        return x
    starts, steps, sizes = [0] * len(dims), [1] * len(dims), [*dims]
    starts[axis], steps[axis], sizes[axis] = begin, step, number
    return make("slice", x, starts=tuple(starts), steps=tuple(steps), sizes=tuple(sizes))


def joined_runs(
    parts: Parts, windows: Positions, combine: Combine, sliced: Sliced, idempotent: bool = False
) -> Parts:
    """Return the reduction of each window, one tensor for each of `parts`, which hold the padding.

    Args:
        combine: joins the reductions of two runs of elements, the earlier one first.
        sliced: elements of the axis: (tensor, begin, number, step).
        idempotent: whether elements may count twice: then two runs that overlap make up a window.
    """

    def of_windows(runs: Parts, element: int) -> Parts:
        begin = element * windows.dilation
        return [sliced(x, begin, windows.count, windows.stride) for x in runs]

    result: Parts = ()
    done, run, runs = 0, 1, parts
    size = (windows.count - 1) * windows.stride + (windows.size - 1) * windows.dilation + 1
    while True:
        is_last = 2 * run > windows.size
        if is_last if idempotent else windows.size & run:
            piece = of_windows(runs, done)
            result = combine(result, piece) if result else piece
            done += run
        if is_last:
            break
        offset = run * windows.dilation
        size -= offset
        early, late = ([sliced(x, begin, size, 1) for x in runs] for begin in (0, offset))
        runs = combine(early, late)
        run *= 2
    return combine(result, of_windows(runs, windows.size - run)) if done < windows.size else result
