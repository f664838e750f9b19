"""Functions whose results have as many rows as the data decide."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.dims import Dim
from ...base.dtypes import BOOL, F32, F64, S64
from ...base.size_limits import broadcast_sizes
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.rewriting.values import constant_value
from ..correspondence.compositions.arithmetic import filled
from ..correspondence.compositions.assignment import masked_select
from ..correspondence.compositions.counted import (
    Distinct,
    along,
    distinct,
    nonzero,
    repeat_rows,
    rows_where,
    runs,
    stacked,
)
from ..correspondence.compositions.indexing import positions
from ..correspondence.compositions.movement import broadcast_to, repeat_each
from .call import Call, Handler, Results, Value


def _read_masked_select(node: Call) -> Value:
    x, mask = node.tensor_of(), node.tensor_of("mask", BOOL)
    if constant_value(mask) is not None:
        return masked_select(node, x, mask)
    dims = broadcast_sizes(x.details.plain_dims, mask.details.plain_dims)
    both = (broadcast_to(node, y, dims) for y in (x, mask))
    flat, kept = (node.reshaped(y, (math.prod(dims),)) for y in both)
    return rows_where(node, flat, kept, 0)


def _read_nonzero(node: Call) -> Value:
    return stacked(node, nonzero(node, node.tensor_of()), 1)


def _read_unique(node: Call) -> Results:
    """Values in ascending order, which of them each element is, and how often each occurs."""
    node.argument("sorted")  # all are
    return _requested(node, lambda x: distinct(node, x, in_order=True))


def _requested(node: Call, find: Callable[[GraphTensor], Distinct]) -> Results:
    """The distinct elements, or slices of an axis; what is not requested has no elements."""
    x, dims = node.tensor_of(), node.tensor_of().details.plain_dims
    if node.given("dim"):
        axis = node.axis(node.attr_int("dim"), len(dims))
        dims = (dims[axis],)
        found = along(node, x, axis, find)
    else:
        found = find(node.reshaped(x, (x.details.elements,)))
    wanted = [node.attr_bool(f"return_{name}", False) for name in ("inverse", "counts")]
    wanted = [True, True] if node.given("dim") else wanted  # as ATen's functions return them
    others = node.reshaped(found.inverse, dims), found.counts
    none = node.constant(np.zeros(0), S64)
    return found.values, *(y if one else none for y, one in zip(others, wanted, strict=True))


def _read_bin_counts(node: Call) -> Value:
    """Count the occurrences of each number from 0 to the largest, or add up its weights; at least `minlength` results.

    A negative number is an error of the run, as in PyTorch.
    """
    x, size = node.tensor_of("input", S64), node.attr_int("minlength", 0)
    most, least = (node.helper(f"reduce_{end}", x, axes=(0,)) for end in ("max", "min"))
    bins = node.helper("add", most, node.constant(1, S64))
    bins = node.helper("max", bins, node.constant(size, S64))
    is_negative = node.helper("lt", least, node.constant(0, S64))
    count = node.counted(node.helper("select", is_negative, least, bins), None)
    weights = node.optional("weights")
    dtype = S64 if weights is None else F32 if weights.details.dtype == F32 else F64
    added = node.constant(1, dtype) if weights is None else node.converted(weights, dtype)
    added = broadcast_to(node, added, x.details.plain_dims)
    return node.make("scatter", x, filled(node, (count,), 0, dtype), added, reduction="add", run=1)


def _read_repeats(node: Call) -> Value:
    """Each element of an axis as often as a number says, or as its own number does."""
    repeats = node.argument("repeats")
    if not isinstance(repeats, GraphTensor):
        axis = node.attr_int("dim") if node.given("dim") else None
        x = node.tensor_of()
        axis = axis if axis is None else node.axis(axis, x.details.rank)
        return repeat_each(node, x, node.attr_ints("repeats")[0], axis)
    if not node.given("input"):  # the number of each element
        (size,) = repeats.details.plain_dims
        return node.converted(
            repeat_rows(node, positions(node, size, 0, 1), repeats, 0), repeats.details.dtype
        )
    x = node.tensor_of()
    if not node.given("dim"):
        x = node.reshaped(x, (x.details.elements,))
    axis = node.axis(node.attr_int("dim", 0), x.details.rank)
    total = node.argument("output_size")
    known = total if isinstance(total, (int, Dim)) else None
    return repeat_rows(node, x, repeats, axis, known)


def _read_choice(node: Call, op_name: str) -> Any:
    """One of two tensors by a condition, or without them the indices where it is true, one tensor for each axis."""
    if not (node.given("input") or node.given("other")):
        return [*nonzero(node, node.tensor_of("condition"))]
    row, spelling = node.cell
    return node.make(op_name, *node.read_operands(row, spelling.operands))


READS = {"choice": _read_choice}

CALLS: dict[str, Handler] = {
    "masked_select": Handler(_read_masked_select, ("input", "mask")),
    "nonzero": Handler(_read_nonzero),
    "argwhere": Handler(_read_nonzero),
    "_unique2": Handler(_read_unique, ("input", "sorted", "return_inverse", "return_counts")),
    "unique_dim": Handler(
        _read_unique, ("input", "dim", "sorted", "return_inverse", "return_counts")
    ),
    "unique_consecutive": Handler(
        lambda node: _requested(node, lambda x: runs(node, x)),
        ("input", "return_inverse", "return_counts", "dim"),
    ),
    "bincount": Handler(_read_bin_counts, ("input", "weights", "minlength")),
    "repeat_interleave": Handler(
        _read_repeats, ("input", "repeats", "dim", "output_size"), ("output_size",)
    ),
}
