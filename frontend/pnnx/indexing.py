"""Reads index expressions; writes lookups, assignments and scans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dtypes import BOOL, F32, F64, S32, S64
from ...base.size_limits import broadcast_sizes
from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ...graph_ir.rewriting.values import constant_value
from ..correspondence.compositions.assignment import masked_select, pick, put
from ..correspondence.compositions.counted import distinct, nonzero, rows_where, runs, stacked
from ..correspondence.compositions.movement import broadcast_to
from ..correspondence.reading import Pair
from ..torch_calls.indexing import SCATTER_REDUCTIONS
from .export import WORDS, Exporter
from .expression import evaluate_expression, parse_expression
from .scope import Handler, Node, Results, Value

# Advanced indexing: x[:, i, j].

_INDEX_SLOTS = ("indices", *(f"indices_{number}" for number in range(1, 8)))
"""A list of indices, or the tensors of the operator's own expression."""


def _items(node: Node) -> list[GraphTensor | None]:
    """The index list: tensors, and None for whole axes."""
    text = node.text("expr")
    if text is not None:
        others = [node.scope.values[operand] for operand in node.op.inputs[1:]]
        for name in _INDEX_SLOTS:
            node.argument(name)
        value: Value = evaluate_expression(parse_expression(text), others, node.part())
    else:
        value = node.argument("expr" if node.given("expr") else "indices")
    items: list[GraphTensor | None] = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, int) and not isinstance(item, bool):
            item = node.constant(item, S64)
        if item is not None and not isinstance(item, GraphTensor):
            raise node.rule("an index must be a tensor or None", repr(item)[:64])
        items.append(item)
    return items


def _read_index(node: Node, _: str) -> Value:
    items = [index for item in _items(node) for index in _counted(node, item)]
    return pick(node, node.tensor_of(), items)


def _counted(node: Node, item: GraphTensor | None) -> Sequence[GraphTensor | None]:
    """A mask that only a run knows as the indices where it is true, whose number is an open size."""
    is_mask = item is not None and item.details.dtype == BOOL and constant_value(item) is None
    return nonzero(node, item) if item is not None and is_mask else (item,)


def _read_masked_select(node: Node) -> Value:
    x, mask = node.tensor_of(), node.tensor_of("mask", BOOL)
    if constant_value(mask) is not None:
        return masked_select(node, x, mask)
    dims = broadcast_sizes(x.details.plain_dims, mask.details.plain_dims)
    both = (broadcast_to(node, y, dims) for y in (x, mask))
    flat, kept = (node.reshaped(y, (math.prod(dims),)) for y in both)
    return rows_where(node, flat, kept, 0)


def _read_nonzero(node: Node) -> Value:
    return stacked(node, nonzero(node, node.tensor_of()), 1)


def _read_unique(node: Node) -> Results:
    """Values in ascending order, which of them each element is, and how often each occurs."""
    x = node.tensor_of()
    flat = node.reshaped(x, (x.details.elements,))
    for name in ("sorted", "return_inverse", "return_counts"):
        node.argument(name)  # all are sorted, and what is not asked for is not read
    found = distinct(node, flat, in_order=True)
    return found.values, node.reshaped(found.inverse, x.details.plain_dims), found.counts


def _read_runs(node: Node) -> Results:
    """The same of runs of equal elements, in the order of the elements."""
    x = node.tensor_of()
    if node.given("dim") and x.details.rank != 1:
        raise node.unsupported("dim")
    flat = node.reshaped(x, (x.details.elements,))
    for name in ("return_inverse", "return_counts"):
        node.argument(name)
    found = runs(node, flat)
    return found.values, node.reshaped(found.inverse, x.details.plain_dims), found.counts


def _read_bin_counts(node: Node) -> Value:
    """How often each number from 0 to minlength - 1 occurs, or the sum of its weights; each run checks that none is
    larger. Without minlength the values decide the size, without a bound.
    """
    x, size = node.tensor_of("input", S64), node.attr_int("minlength", 0)
    if not size:
        raise node.unsupported("a size that the largest value decides", "give minlength=")
    weights = node.optional("weights")
    dtype = S64 if weights is None else F32 if weights.details.dtype == F32 else F64
    each = node.constant(np.ones(x.details.plain_dims), dtype)
    inside = node.helper("clamp", x, min=0.0, max=float(size - 1))
    fits = node.helper("reduce_all", node.helper("eq", x, inside), axes=(0,), keep_dims=False)
    node.scope.require(fits, f"{node.type} '{node.name}': values must be in [0, minlength={size})")
    added = each if weights is None else node.converted(weights, dtype)
    zeros = node.constant(np.zeros(size), dtype)
    return node.make("scatter", inside, zeros, added, reduction="add", run=1)


HANDLERS: dict[str, Handler] = {
    f"{prefix}{name}": handler
    for prefix in ("torch.", "Tensor.", "aten::")
    for name, handler in (
        ("masked_select", Handler(_read_masked_select, ("input", "mask"))),
        ("nonzero", Handler(_read_nonzero)),
        ("argwhere", Handler(_read_nonzero)),
        ("_unique2", Handler(_read_unique, ("input", "sorted", "return_inverse", "return_counts"))),
        (
            "unique_consecutive",
            Handler(_read_runs, ("input", "return_inverse", "return_counts", "dim")),
        ),
        ("bincount", Handler(_read_bin_counts, ("input", "weights", "minlength"))),
    )
}
"""Operators whose results have as many rows as the data decide."""


def _read_index_put(node: Node, _: str) -> Value:
    values, adds = node.tensor_of("values"), node.attr_bool("accumulate", False)
    return put(node, node.tensor_of(), _items(node), values, adds)


# Elements at indices along an axis.


def _write_gather(e: Exporter, op: Op, type_name: str) -> Any:
    """index_select of a vector of indices, F.embedding of rows, else an index expression."""
    x, index = op.inputs
    ids, axis = _indices(e, op, index, (S32, S64)), op.attr("axis")
    if index.details.rank == 1:
        operands = [("input", e.operand(x)), ("index", ids)]
        return e.emit(op, type_name, operands, {"dim": axis})
    if x.details.rank == 2 and axis == 0:
        return e.emit(op, "F.embedding", [("input", ids), ("weight", e.operand(x))], {})
    items = ["None"] * axis + ["@0"]
    params = {"expr": f"[{','.join(items)}]"}
    return e.emit(op, "Tensor.index", [("", e.operand(x)), ("", ids)], params)


def _indices(e: Exporter, op: Op, index: GraphTensor, accepted: tuple[Any, ...] = (S64,)) -> str:
    """Indices in a type PyTorch accepts."""
    if index.details.dtype in accepted:
        return e.operand(index)
    wide = LogicalTensor(S64, index.details.plain_dims)
    return e.append("Tensor.to", f"{op.name}.to", [e.operand(index)], wide, {"dtype": "torch.long"})


def _write_elements(e: Exporter, op: Op, type_name: str) -> Any:
    """torch.gather, scatter, scatter_add and scatter_reduce; the second operand are the indices."""
    x, index, *updates = op.inputs
    tensors = [e.operand(x), _indices(e, op, index), *map(e.operand, updates)]
    params = {"dim": op.attr("axis")}
    reduction = op.attr("reduction") if updates else "none"
    if reduction == "add":
        type_name = "torch.scatter_add"
    elif reduction != "none":
        type_name, params["reduce"] = "torch.scatter_reduce", SCATTER_REDUCTIONS[reduction]
    operands = zip(("input", "index", "src"), tensors, strict=False)
    return e.emit(op, type_name, list(operands), params)


def _write_scan(e: Exporter, op: Op, type_name: str) -> Any:
    """A reverse scan: the input and the result are flipped."""
    x, operand, axis = op.inputs[0].details, e.operand(op.inputs[0]), op.attr("axis")
    params = {"dim": axis}
    if not x.dtype.is_float and x.dtype != S64:
        params["dtype"] = WORDS[x.dtype.name]
    if not op.attr("reverse"):
        return e.append(type_name, op.name, [operand], x, params)
    turn = {"dims": (axis,)}
    turned = e.append("torch.flip", f"{op.name}.flip", [operand], x, turn)
    total = e.append(type_name, op.name, [turned], x, params)
    return e.append("torch.flip", f"{op.name}.back", [total], x, turn)


PAIRS = {"index": Pair(_read_index), "index_put": Pair(_read_index_put)}
"""Functions that read what only this format writes so, by the name after `by`."""

WRITES = {
    "gather": _write_gather,
    "elements": _write_elements,
    "scatter": _write_elements,
    "scan": _write_scan,
}
"""Functions that rows name after `by`."""
