"""Bags of rows, histograms, and assignments by masks."""

from __future__ import annotations

import math

import numpy as np

from ...base.dtypes import BOOL, S64
from ...base.size_limits import broadcast_sizes
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.arithmetic import filled
from ..correspondence.compositions.assignment import assign_rows, put
from ..op_builder import like
from .call import Call, Handler, Results, Value
from .indexing import combined


def _read_bag(node: Call) -> Results:
    """Sums, means or largest elements of bags of rows; the other outputs are of training."""
    table, indices = node.tensor_of("weight"), node.tensor_of("indices", S64)
    offsets = node.tensor_of("offsets", S64)
    if [x.details.rank for x in (table, indices, offsets)] != [2, 1, 1]:
        shapes = ", ".join(str(x.details) for x in (table, indices, offsets))
        raise node.rule("weight must be a matrix, indices and offsets vectors", shapes)
    mode, padding = node.attr_int("mode", 0), node.attr_int("padding_idx", -1)
    last = offsets.details.plain_dims[0] - node.attr_bool("include_last_offset", False)
    if last < 0 or mode not in (_SUM, _MEAN, _MAX):
        raise node.rule(
            "mode must be 0, 1 or 2, with an offset for each bag", f"{mode}, {offsets.details}"
        )
    starts = node.reshaped(node.sliced(offsets, 0, 0, last), (1, last))
    count = indices.details.plain_dims[0]
    position = node.constant(np.arange(count)[:, None], S64)
    begun = node.converted(node.helper("le", starts, position), S64)
    bag = node.helper("reduce_sum", begun, axes=(-1,), keep_dims=False)  # counted from 1
    numbers = node.constant(np.arange(1, last + 1)[:, None], S64)
    member = node.helper("eq", node.reshaped(bag, (1, count)), numbers)
    if padding >= 0:
        kept = node.helper("ne", indices, node.constant(padding, S64))
        member = node.helper("and", member, node.reshaped(kept, (1, count)))
    rows = node.helper("gather", table, indices, axis=0)
    return _bagged(node, rows, member, mode), None, None, None


_SUM, _MEAN, _MAX = 0, 1, 2


def _bagged(node: Call, rows: GraphTensor, member: GraphTensor, mode: int) -> GraphTensor:
    """Rows [n, d] combined for each bag of `member` [bags, n]."""
    dtype = rows.details.dtype
    if mode == _MAX:
        bags, count = member.details.plain_dims
        seen = node.reshaped(member, (bags, count, 1))
        found = node.helper("select", seen, rows, like(node, -math.inf, rows))
        best = node.helper("reduce_max", found, axes=(1,), keep_dims=False)
        some = node.helper("reduce_any", member, axes=(1,), keep_dims=True)
        return node.make("select", some, best, like(node, 0, best))
    factors = node.converted(member, dtype)
    if node.given("per_sample_weights"):
        factors = node.helper("mul", factors, node.tensor_of("per_sample_weights", dtype))
    total = node.make("matmul_core", factors, rows)
    if mode == _SUM:
        return total
    size = node.helper("reduce_sum", node.converted(member, S64), axes=(1,), keep_dims=True)
    size = node.helper("max", size, node.constant(1, S64))
    return node.helper("div", total, node.converted(size, dtype))


def _read_masked_scatter(node: Call) -> Value:
    """The elements where a mask is true replaced by those of a source, one after the other."""
    x, source = node.tensor_of(), node.tensor_of("source")
    mask = node.tensor_of("mask", BOOL)
    try:
        dims = broadcast_sizes(x.details.plain_dims, mask.details.plain_dims)
    except ValueError as error:
        raise node.rule("the mask must fit the input", f"{mask.details}, {x.details}") from error
    x, mask = (node.broadcast(t, dims) for t in (x, mask))
    flat = node.reshaped(source, (source.details.elements,))
    return put(node, x, [mask], flat)


def _read_put(node: Call) -> Value:
    """Elements of the tensor as a vector."""
    x, dims = node.tensor_of(), node.tensor_of().details.plain_dims
    flat, index, source = (
        node.reshaped(t, (t.details.elements,))
        for t in (x, node.tensor_of("index", S64), node.tensor_of("source"))
    )
    if index.details != source.details and index.details.elements != source.details.elements:
        raise node.rule(
            "there must be an index for each value", f"{index.details}, {source.details}"
        )
    changed = put(node, flat, [index], source, node.attr_bool("accumulate", False))
    return node.reshaped(changed, dims)


_REDUCE_WORDS = ("prod", "mean", "amax", "amin")


def _read_index_reduce(node: Call) -> Value:
    """Slices along an axis combined with those of a source."""
    x, index = node.tensor_of(), node.tensor_of("index", S64)
    axis = node.axis(node.attr_int("dim"), x.details.rank)
    word = node.attr_text("reduce")
    if word not in _REDUCE_WORDS:
        raise node.unsupported(f"reduce={word}")

    def assigned(into: GraphTensor, values: GraphTensor, reduction: str) -> GraphTensor:
        return assign_rows(node.part(), into, index, values, axis, reduction)

    return combined(node, x, node.tensor_of("source", x.details.dtype), word, assigned)


def _read_histogram(node: Call) -> Value:
    """Count the elements in each of `bins` intervals of one width between two bounds, the last one included."""
    x, bins = node.tensor_of(), node.attr_int("bins", 100)
    if bins < 1 or not x.details.dtype.is_float or not x.details.elements:
        raise node.rule("bins must be positive, the input floats", f"{bins}, {x.details}")
    x = node.reshaped(x, (x.details.elements,))
    low, high = (like(node, node.number(name, 0), x) for name in ("min", "max"))
    if node.number("min", 0) == node.number("max", 0):
        low, high = (
            node.helper(f"reduce_{w}", x, axes=(0,), keep_dims=False) for w in ("min", "max")
        )
        is_one, half = node.helper("eq", low, high), like(node, 1, x)
        low = node.helper("select", is_one, node.helper("sub", low, half), low)
        high = node.helper("select", is_one, node.helper("add", high, half), high)
    inside = node.helper("and", node.helper("ge", x, low), node.helper("le", x, high))
    position = node.helper("mul", node.helper("sub", x, low), like(node, bins, x))
    position = node.converted(node.helper("div", position, node.helper("sub", high, low)), S64)
    position = node.helper("min", position, node.constant(bins - 1, S64))
    position = node.helper("select", inside, position, node.constant(bins, S64))
    zeros = filled(node, (bins + 1,), 0, x.details.dtype)
    count = put(node.part(), zeros, [position], like(node, 1, x), True)
    return node.sliced(count, 0, 0, bins)


_BAG = (
    *("weight", "indices", "offsets", "scale_grad_by_freq", "mode", "sparse", "per_sample_weights"),
    *("include_last_offset", "padding_idx"),
)
_NAMES = ("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")

CALLS: dict[str, Handler] = {
    "histc": Handler(_read_histogram, ("input", "bins", "min", "max")),
    **dict.fromkeys(_NAMES, Handler(_read_bag, _BAG, ("scale_grad_by_freq", "sparse"))),
    "masked_scatter": Handler(_read_masked_scatter, ("input", "mask", "source")),
    "put": Handler(_read_put, ("input", "index", "source", "accumulate")),
    "index_reduce": Handler(
        _read_index_reduce, ("input", "dim", "index", "source", "reduce", "include_self")
    ),
}
