"""Repeats that run by shuffles of the vectors of a row."""

from __future__ import annotations

from ...base.dims import is_known
from ...base.dtypes import BOOL
from ..ops.movement import Repeat
from ..rewriting.kernel_group import KernelGroup

MAX_TIMES = 16
"""Vectors that are written for each that is read."""


def repeats_rows(group: KernelGroup) -> bool:
    """Return whether a group is a repeat of elements that lie next to each other, along the last axis too."""
    (op, *more), (y, *_) = group.ops, group.outputs
    if more or not isinstance(op, Repeat) or not op.counts or y.details.dtype == BOOL:
        return False
    x = op.inputs[0].details
    plain = x.format.is_plain and y.details.format.is_plain
    return plain and is_known(*x.plain_dims) and x.elements > 0 and 1 < op.counts[-1] <= MAX_TIMES
