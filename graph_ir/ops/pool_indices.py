"""max_pool_indices: the position in its image of the largest element of each window."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ...base.dims import bounds
from ...base.dtypes import BOOL, S32, S64
from ..ir.graph import Array, Graph, GraphTensor
from ..ir.logical_tensor import LogicalTensor
from ..ir.reference import widen
from ..ir.registry import register
from .compose import Composer
from .doubling import Parts, axis_sliced, joined_runs, positions_of
from .elementwise import FLOAT, NUMBER
from .pool import PooledOp
from .reduce import identity
from .window import padded

MAX_COMPARED = 32
"""Up to this window size, all elements of a window are compared with its largest one."""


@register("max_pool_indices")
class MaxPoolIndices(PooledOp):
    """The positions (s64) that `max_pool` takes its elements from, as flat indices over the window axes of x.

    Of equal elements the first one counts; NaN is larger than any number. Padding is never taken.
    """

    accepts = NUMBER

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """s64 in the shape of the pool."""
        (pooled,) = super().infer(inputs)
        return [LogicalTensor(S64, pooled.plain_dims)]

    def positions(self) -> Array:
        """s64 [positions..., kernel...]: the position of each element of each window, out of range where it
        is padding."""
        window = self.window
        sizes = self.inputs[0].details.plain_dims[-window.rank :]
        count = math.prod(sizes)
        return window.view(np.arange(count, dtype=np.int64).reshape(sizes), count)

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The first position of the window's largest element, ignoring padding."""
        x, positions, rank = widen(inputs[0]), self.positions(), self.window.rank
        inside = positions < math.prod(x.shape[-rank:])
        view = self.window.view(x, 0)
        axes = tuple(range(view.ndim - rank, view.ndim))
        low = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        largest = np.where(inside, view, np.asarray(low, x.dtype)).max(axis=axes, keepdims=True)
        hit = ((view == largest) | ((view != view) & (largest != largest))) & inside
        return [np.where(hit, positions, math.prod(x.shape[-rank:])).min(axis=axes)]

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """Runs of elements of large windows with their positions; of small ones, the first position of the elements
        that equal the largest one."""
        small = math.prod(self.window.kernel) <= MAX_COMPARED
        return [(self._compared if small else self._doubled)(Composer(graph, self))]

    def _doubled(self, make: Composer) -> GraphTensor:
        """The better of two elements and its position, for runs of 1, 2, 4, ... elements along each axis.

        Padding counts as the smallest value at a position behind all others. What is combined is in no order, as the
        smaller of two positions decides between equal elements.
        """
        (x,), window = self.inputs, self.window
        dims, lead = x.details.plain_dims, x.details.rank - window.rank
        count = math.prod(dims[lead:])
        narrow = S32 if bounds(count)[1] < S32.limits[1] else S64  # half the memory of each pass
        positions = make.to(make("count_up", size=(count,)), narrow)
        table = make("broadcast", make("reshape", positions, shape=dims[lead:]), shape=dims)
        fills = (identity("max", x.details.dtype.accumulator), narrow.limits[1])
        parts: Parts = [
            padded(make, one, window, fill) for one, fill in zip((x, table), fills, strict=True)
        ]

        def better(left: Parts, right: Parts) -> list[GraphTensor]:
            (a, i), (b, j) = left, right
            wins, ties = make("gt", b, a), make("eq", b, a)
            if x.details.dtype.kind in FLOAT:
                a_nan, b_nan = make("isnan", a), make("isnan", b)
                wins = make("or", wins, make("and", b_nan, make("not", a_nan)))
                ties = make("or", ties, make("and", a_nan, b_nan))
            wins = make("or", wins, make("and", ties, make("lt", j, i)))
            return [make("select", wins, *pair) for pair in ((b, a), (j, i))]

        for axis, windows in enumerate(
            positions_of(window, self.outputs[0].details.plain_dims[lead:]), lead
        ):
            sliced = partial(axis_sliced, make, axis)
            parts = joined_runs(parts, windows, better, sliced, idempotent=True)
        return make.to(parts[1], S64)

    def _compared(self, make: Composer) -> GraphTensor:
        (x,), rank = self.inputs, self.window.rank
        out = self.outputs[0].details.plain_dims
        lead = len(out) - rank
        attrs = self.window_attrs()
        largest = make("max_pool", x, **attrs)
        largest = make("reshape", largest, shape=(*out[:lead], *(1,) * rank, *out[lead:]))
        seen = make("im2col", x, **attrs)
        hit = make("eq", seen, largest)
        if x.details.dtype.kind in FLOAT:
            both = make("and", make("isnan", seen), make("isnan", largest))
            hit = make("or", hit, both)
        beyond = make.size(math.prod(x.details.plain_dims[lead:]))
        found = make("select", hit, self._table(make, beyond), beyond)
        return make("reduce_min", found, axes=tuple(range(lead, lead + rank)))

    def _table(self, make: Composer, beyond: GraphTensor) -> GraphTensor:
        """S64 [kernel..., positions...]: the position of each element of each window, `beyond` where it is padding."""
        window, (x,) = self.window, self.inputs
        rank, zero = window.rank, make.scalar(0, S64)
        sizes, total, outside = x.details.plain_dims[-rank:], zero, make.scalar(False, BOOL)
        for axis, along in enumerate(positions_of(window, window.output_sizes(sizes))):
            starts = make("count_up", size=(along.count,), step=along.stride)
            element = np.arange(along.size)[:, None] * along.dilation - window.before[axis]
            shape = [1] * (2 * rank)
            shape[axis], shape[rank + axis] = along.size, along.count
            index = make("reshape", make("add", starts, make.constant(element)), shape=tuple(shape))
            size = make.size(sizes[axis])
            total = make("add", make("mul", total, size), index)
            padding = make("or", make("lt", index, zero), make("ge", index, size))
            outside = make("or", outside, padding)
        return make("select", outside, beyond, total)
