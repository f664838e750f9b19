"""Nodes whose indices are tuples or positions: GatherND, ScatterND, TensorScatter, MaxUnpool."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...base.dims import Size, bounds
from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.indexing import (
    dynamic_size,
    gather_nd,
    positions,
    scatter_nd,
    scatter_runs,
    size_list,
    tuple_depth,
    wrapped,
)
from ..op_builder import OpBuilder, Value
from ..shape_spec import check_size
from .scope import Handler, NodeContext


def _gather_nd(node: NodeContext) -> Value:
    x, indices, shared = node.tensor(0), node.tensor(1), node.attr_int("batch_dims")
    depth = tuple_depth(node, indices, x.details.rank - shared)
    own = x.details.plain_dims[shared : shared + depth]
    return gather_nd(node, x, wrapped(node, indices, own), shared)


def _scatter_nd(node: NodeContext) -> Value:
    data, indices, updates = (node.tensor(i) for i in range(3))
    depth = tuple_depth(node, indices, data.details.rank)
    tuples = wrapped(node, indices, data.details.plain_dims[:depth])
    reduction = node.attr_text("reduction")
    return scatter_nd(node, data, tuples, updates, reduction, check_bounds=True)


def _tensor_scatter(node: NodeContext) -> Value:
    """A cache whose rows from write_indices[b] on are replaced, for each b of the first axis."""
    cache, update = node.tensor(0), node.tensor(1)
    dims, new = cache.details.plain_dims, update.details.plain_dims
    axis = node.axis(node.attr_int("axis"), len(dims))
    mode = node.attr_text("mode")
    if not axis or mode not in ("linear", "circular"):
        raise node.rule("axis must not be 0 and mode linear or circular", f"{axis}, '{mode}'")
    if (*dims[:axis], *dims[axis + 1 :]) != (*new[:axis], *new[axis + 1 :]):
        raise node.rule(
            f"sizes must agree except for axis {axis}", f"{cache.details} and {update.details}"
        )
    count, run = math.prod(dims[:axis]), math.prod(dims[axis + 1 :])
    rows = positions(node, new[axis], 0, 1)
    if node.has(2):
        first = node.reshaped(node.tensor(2), (dims[0], *(1,) * axis))
        rows = node.helper("add", node.converted(first, S64), rows)
    size = dynamic_size(node, dims[axis])
    if mode == "circular":
        rows = node.helper("mod", rows, size, sign="floor")
    starts = node.helper("mul", positions(node, count, 0, 1), size)
    flat = node.helper("add", node.reshaped(starts, (*dims[:axis], 1)), rows)
    low, high = node.helper("ge", rows, node.constant(0, S64)), node.helper("lt", rows, size)
    inside = node.helper("and", low, high)
    step = dynamic_size(node, run)
    flat = node.helper("mul", node.helper("select", inside, flat, node.constant(-1, S64)), step)
    return (
        scatter_runs(node, cache, flat, update, run, "none") if update.details.elements else cache
    )


def _max_unpool(node: NodeContext) -> Value:
    """Zeros with each element at its flat index in the result."""
    x, indices = node.tensor(0), node.tensor(1)
    kernel = node.attr_ints("kernel_shape", None) or ()
    count = x.details.rank - 2
    strides = node.attr_ints("strides", None) or (1,) * count
    pads = node.attr_ints("pads", None) or (0,) * (2 * count)
    if (len(kernel), len(strides), len(pads)) != (count, count, 2 * count):
        raise node.rule(
            f"kernel_shape, strides and pads must fit {count} spatial axes", str(x.details)
        )
    batch = x.details.plain_dims[:2]
    natural = [
        (n - 1) * s + k - pads[i] - pads[i + count]
        for i, (n, s, k) in enumerate(zip(x.details.plain_dims[2:], strides, kernel, strict=True))
    ]
    shape = (*batch, *natural)
    flat = node.converted(indices, S64)
    if node.has(2):
        wanted = node.ints(2, "an output shape", sizes=True)
        rule = f"output_shape must be {list(shape)} or larger"
        more = [bounds(a - b) for a, b in zip(wanted, shape, strict=False)]
        if len(wanted) != len(shape) or min(high for _, high in more) < 0:
            raise node.rule(rule, str(list(wanted)))
        if min(low for low, _ in more) < 0:
            holds = node.helper("ge", size_list(node, wanted), size_list(node, shape))
            node.require(node.helper("reduce_all", holds, axes=(0,), keep_dims=False), rule)
        flat, shape = _in_larger(node, flat, shape, wanted), wanted
    check_size(f"MaxUnpool '{node.name}'", x.details.dtype, shape)
    zeros = node.helper("broadcast", node.constant(0, x.details.dtype), shape=shape)
    return node.make("scatter", flat, zeros, x)


def _in_larger(
    build: OpBuilder, flat: GraphTensor, dims: Sequence[Size], larger: Sequence[Size]
) -> GraphTensor:
    """Convert flat indices in `dims` to those of the same elements in `larger`."""
    if tuple(dims) == tuple(larger):
        return flat
    total = build.constant(0, S64)
    for axis, size in enumerate(dims):
        along = build.helper("div", flat, dynamic_size(build, math.prod(dims[axis + 1 :])))
        along = build.helper("mod", along, dynamic_size(build, size), sign="floor")
        start = build.helper("mul", total, dynamic_size(build, larger[axis]))
        total = build.helper("add", start, along)
    return total


HANDLERS: dict[str, Handler] = {
    "GatherND": _gather_nd,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "MaxUnpool": _max_unpool,
}
