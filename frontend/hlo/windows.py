"""Windows as HLO writes them: their checks, and how many positions they have."""

from __future__ import annotations

from collections.abc import Sequence

from .scope import Step
from .syntax import WindowDimension

Windows = tuple[WindowDimension, ...]


def windows_of(step: Step, rank: int) -> Windows:
    """The entries of the window for each of `rank` axes."""
    windows: Windows = step.attribute("window", ())
    if len(windows) != rank:
        raise step.rule(f"window must have {rank} axes", str(len(windows)))
    for w in windows:
        if min(w.size, w.stride, w.base_dilation, w.window_dilation) < 1:
            raise step.fail("sizes, strides and dilations of a window must be 1 or more")
    return windows


def positions_of(dims: Sequence[int], windows: Windows) -> tuple[int, ...]:
    """The number of positions of the window on each axis; none where it does not fit."""
    found = []
    for size, w in zip(dims, windows, strict=True):
        spread = (size - 1) * w.base_dilation + 1 if size else 0
        room = spread + w.low + w.high - (w.size - 1) * w.window_dilation - 1
        found.append(room // w.stride + 1 if room >= 0 else 0)
    return tuple(found)


def has_gaps(windows: Windows) -> bool:
    """Whether there are zeros between elements or negative padding, which windows of the Graph IR lack."""
    return any(w.base_dilation > 1 or min(w.low, w.high) < 0 for w in windows)
