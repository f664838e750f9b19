"""max_pool_indices: the position in its image of the largest element of each window."""

from __future__ import annotations

import math

import numpy as np

from ...base.dtypes import S64
from ..ir.graph import Array, Graph, GraphTensor
from ..ir.logical_tensor import LogicalTensor
from ..ir.reference import widen
from ..ir.registry import register
from .compose import Composer
from .elementwise import FLOAT, NUMBER
from .pool import PooledOp


@register("max_pool_indices")
class MaxPoolIndices(PooledOp):
    """The positions (s64) that `max_pool` takes its elements from, as flat indices over the window axes of x.

    Of equal elements the first one counts; NaN is larger than any number. Padding is
    never taken.
    """

    accepts = NUMBER

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """s64 in the shape of the pool."""
        (pooled,) = super().infer(inputs)
        return [LogicalTensor(S64, pooled.plain_dims)]

    def positions(self) -> Array:
        """s64 [positions..., kernel...]: the position of each element of each window, out of range where it is
        padding."""
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
        """The first position among the elements of the window that equal its largest one."""
        make, window = Composer(graph, self), self.window
        (x,), rank, positions = self.inputs, self.window.rank, self.positions()
        out = self.outputs[0].details.plain_dims
        lead = len(out) - rank
        order = (*range(rank, 2 * rank), *range(rank))
        table = graph.make_constant(
            np.ascontiguousarray(positions.transpose(order)), f"{self.name}.positions"
        )
        attrs = self.window_attrs()
        largest = make("max_pool", x, **attrs)
        largest = make("reshape", largest, shape=(*out[:lead], *(1,) * rank, *out[lead:]))
        seen = make("im2col", x, **attrs)
        hit = make("eq", seen, largest)
        if x.details.dtype.kind in FLOAT:
            both = make("and", make("isnan", seen), make("isnan", largest))
            hit = make("or", hit, both)
        beyond = make.scalar(math.prod(x.details.plain_dims[lead:]), S64)
        found = make("select", hit, table, beyond)
        return [make("reduce_min", found, axes=tuple(range(lead, lead + window.rank)))]
