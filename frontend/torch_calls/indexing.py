"""Assignments and scans that rows of the table cannot express."""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import BOOL, S64, U8
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.ops.reduce import identity
from ..correspondence.compositions.assignment import assign_ranges
from ..correspondence.compositions.axes import differences
from ..correspondence.compositions.movement import broadcast_to
from ..correspondence.compositions.order import insertion_index
from .call import Call, Value
from .movement import sliced_ranges


def _read_slice_assign(node: Call, _: str) -> Value:
    x = node.tensor_of()
    return assign_ranges(node, x, node.tensor_of("src"), *sliced_ranges(node, x))


SCATTER_REDUCTIONS = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax"}
_SAME_REDUCTION = {"add": "sum", "multiply": "prod"}


def _read_scatter(node: Call, _: str) -> Value:
    """`reduce` is a parameter, or implied by the name scatter_add."""
    x, index = node.tensor_of(), node.tensor_of("index", S64)
    if not x.details.rank:
        raise node.rule("the input must have axes", str(x.details))
    axis = node.axis(node.attr_int("dim", 0), x.details.rank)
    given = "sum" if node.type.endswith("scatter_add") else node.attr_text("reduce", "none")
    word = _SAME_REDUCTION.get(given, given)
    if word not in ("none", "mean", *SCATTER_REDUCTIONS.values()):
        raise node.unsupported(f"reduce={given}")
    updates = node.tensor_of("src", x.details.dtype)
    wanted = index.details.plain_dims
    if not updates.details.rank:
        updates = broadcast_to(node, updates, wanted)
    if updates.details.rank != len(wanted):
        raise node.rule("src must have the axes of index", f"{updates.details}, {index.details}")
    for axis_, size in enumerate(wanted):  # src may be larger than index: only its start is used
        if updates.details.plain_dims[axis_] > size:
            updates = node.sliced(updates, axis_, 0, size)

    def scattered(into: GraphTensor, values: GraphTensor, reduction: str) -> GraphTensor:
        attrs = {"axis": axis, "reduction": reduction}
        return node.part().make("scatter_elements", into, index, values, **attrs)

    return combined(node, x, updates, word, scattered)


Scatter = Callable[[GraphTensor, GraphTensor, str], GraphTensor]
"""Function that returns `scatter_elements` of a tensor, values for some of its elements, and a reduction."""


_OF_BOOLS = {"sum": "amax", "prod": "amin", "amax": "amax", "amin": "amin"}
"""Reductions of the bytes 0 and 1 that are equivalent to reductions of bools."""


def combined(node: Call, x: GraphTensor, values: GraphTensor, word: str, scatter: Scatter) -> Value:
    """Elements of x combined with values as PyTorch's `reduce` says; without x's own, if `include_self` is false."""
    with_self, dtype = node.attr_bool("include_self", True), x.details.dtype
    reduction = next((ours for ours, theirs in SCATTER_REDUCTIONS.items() if theirs == word), "add")
    if word == "none":
        return scatter(x, values, word)
    if dtype == BOOL and word in _OF_BOOLS:
        x, values = (node.converted(y, U8) for y in (x, values))
        found = combined(node, x, values, _OF_BOOLS[word], scatter)
        return node.converted(found, BOOL)  # type: ignore[arg-type]
    into = (
        x
        if with_self
        else scatter(x, filled_like(node, values, identity(reduction, dtype)), "none")
    )
    total = scatter(into, values, reduction)
    if word != "mean":
        return total
    ones = filled_like(node, values, 1)
    counts = scatter(filled_like(node, x, int(with_self)), ones, "add")
    counts = node.helper("max", counts, node.constant(1, dtype))
    rounding = {} if dtype.is_float else {"rounding": "floor"}
    return node.make("div", total, counts, **rounding)


def filled_like(node: Call, x: GraphTensor, value: float) -> GraphTensor:
    """A number in the shape and type of a tensor."""
    return node.broadcast(node.constant(value, x.details.dtype), x.details.plain_dims)


# Scans.


def _read_scan(node: Call, op_name: str) -> Value:
    """Cumulative sums and cumulative products; small integers and bools become s64."""
    x = node.tensor_of()
    wanted = node.dtype() or (x.details.dtype if x.details.dtype.is_float else S64)
    x, axis = node.converted(x, wanted), node.axis(node.attr_int("dim", 0), x.details.rank)
    return node.make(op_name, x, axis=axis) if x.details.rank else x


def _read_differences(node: Call, _: str) -> Value:
    """torch.diff, of the input between two others."""
    ends = [node.optional(name) for name in ("prepend", "append")]
    parts = [x for x in (ends[0], node.tensor_of(), ends[1]) if x is not None]
    axis = node.axis(node.attr_int("dim", -1), parts[0].details.rank)
    whole = node.helper("concat", *parts, axis=axis) if len(parts) > 1 else parts[0]
    return differences(node, whole, node.attr_int("n", 1), axis)


def _read_insertion(node: Call, _: str) -> Value:
    """torch.searchsorted and torch.bucketize."""
    if node.given("sorter"):
        raise node.unsupported("a sorter")
    rows = node.tensor_of("boundaries" if "bucketize" in node.type else "sorted_sequence")
    right = node.attr_bool("right", False) or node.attr_text("side", "left") == "right"
    narrow = node.attr_bool("out_int32", False)
    return insertion_index(node, rows, node.tensor_of(), right, narrow)


READS = {
    "slice_assign": _read_slice_assign,
    "scatter": _read_scatter,
    "scan": _read_scan,
    "diff": _read_differences,
    "insertion": _read_insertion,
}
