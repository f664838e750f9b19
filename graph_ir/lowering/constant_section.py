"""The constants of a program, packed according to their formats, in one contiguous block of memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...base.aligned_memory import (
    ALIGNMENT,
    HUGE_PAGE,
    HUGE_SHARED_FROM,
    SHARED_FROM,
    aligned_empty,
    large_alignment,
)
from ...base.dtypes import U8
from ...base.mapped_file import release
from ...base.pages import PAGE
from ...tensor_ir.nodes import Buffer
from ..ir.graph import Array, Graph, GraphTensor, Op, subgraphs_of
from ..ops.control import ControlOp
from .derived_constants import DerivedConstants

LARGE_BYTES = 1 << 20
"""Smaller constants are not worth giving up: lowering reads some of them."""

_SAMPLE_BYTES = 64


class ConstantSection:
    """The constants of a graph, then those of the subgraphs of its control ops; equal ones once, each aligned; large
    ones fill whole pages.

    `data` is u8[n]; a constant is copied only there, and its file need not stay in memory. With `consume` the graph
    gives up its large constants as they are copied, so that they are not in memory twice; it cannot be evaluated then.
    """

    def __init__(self, graph: Graph, consume: bool = False) -> None:
        constants = list(_constants(graph))
        sizes = [op.outputs[0].details.size_bytes for op in constants]
        most = sum(size + _room(size) for size in sizes)
        self._memory = aligned_empty((most,), np.dtype(np.uint8), large_alignment(most))
        self._end = 0
        self._known: dict[tuple[int, bytes], list[int]] = {}
        self.offsets: dict[GraphTensor, int] = {}
        self.derived = DerivedConstants()
        for op in constants:
            self.offsets[op.outputs[0]] = self._add(op)
            self.derived.take(op, self.offsets[op.outputs[0]])
            if consume and op.attr("value").nbytes >= LARGE_BYTES:
                op.attrs["value"] = None
        self.data: Array = self._memory[: self._end]
        self.buffer = Buffer("constants", U8, (self._end,))

    def _add(self, op: Op) -> int:
        """The offset of the constant."""
        value, details = op.attr("value"), op.outputs[0].details
        alignment = PAGE if details.size_bytes >= SHARED_FROM else ALIGNMENT
        begin = self._end + -self._end % alignment
        if details.size_bytes >= HUGE_SHARED_FROM:  # behind a page, as the data of its file
            begin += (PAGE - begin) % HUGE_PAGE
        end = begin + details.size_bytes
        target = self._memory[begin:end]
        arranged = details.format.arranged(value)
        np.copyto(target.view(arranged.dtype).reshape(arranged.shape), arranged)
        release(value)
        same = self._known.setdefault((target.size, _sample(target)), [])
        for earlier in same:
            if np.array_equal(self._memory[earlier : earlier + target.size], target):
                return earlier
        same.append(begin)
        self._memory[self._end : begin] = 0
        self._end = end + -end % PAGE if alignment == PAGE else end
        self._memory[end : self._end] = 0
        return begin


def _room(size: int) -> int:
    """Return the bytes that a constant of `size` bytes takes at most beside its own."""
    if size >= HUGE_SHARED_FROM:
        return HUGE_PAGE + 2 * PAGE
    return 2 * PAGE if size >= SHARED_FROM else ALIGNMENT


def _constants(graph: Graph) -> Iterator[Op]:
    pending = [graph]
    while pending:
        current = pending.pop(0)
        for op in current.ops:
            if op.is_constant:
                yield op
            elif isinstance(op, ControlOp):
                pending.extend(subgraphs_of(op))


def _sample(data: Array) -> bytes:
    """A sample of bytes from across the constant: most different constants differ there."""
    return data[:: max(1, data.size // _SAMPLE_BYTES)].tobytes()
