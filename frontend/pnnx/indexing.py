"""Reads and writes lookups, assignments and scans that rows of the table cannot express."""

from __future__ import annotations

from typing import Any

from ...base.dtypes import S32, S64
from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.compositions.assignment import assign_ranges, pick, put
from ..correspondence.compositions.movement import broadcast_to
from ..correspondence.reading import Pair
from .export import WORDS, Exporter
from .expression import evaluate_expression, parse_expression
from .movement import sliced_ranges
from .scope import Node, Value

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
    return pick(node, node.tensor_of(), _items(node))


def _read_index_put(node: Node, _: str) -> Value:
    values, adds = node.tensor_of("values"), node.attr_bool("accumulate", False)
    return put(node, node.tensor_of(), _items(node), values, adds)


def _read_slice_assign(node: Node, _: str) -> Value:
    x = node.tensor_of()
    return assign_ranges(node, x, node.tensor_of("src"), *sliced_ranges(node, x))


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


_REDUCTIONS = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax"}
_SAME_REDUCTION = {"add": "sum", "multiply": "prod"}


def _read_scatter(node: Node, _: str) -> Value:
    """`reduce` is a parameter, or implied by the name scatter_add."""
    x, index = node.tensor_of(), node.tensor_of("index", S64)
    if not x.details.rank:
        raise node.rule("the input must have axes", str(x.details))
    axis = node.axis(node.attr_int("dim", 0), x.details.rank)
    given = "sum" if node.type.endswith("scatter_add") else node.attr_text("reduce", "none")
    word = _SAME_REDUCTION.get(given, given)
    reduction = next((ours for ours, theirs in _REDUCTIONS.items() if theirs == word), word)
    if reduction not in ("none", *_REDUCTIONS):
        raise node.unsupported(f"reduce={given}")
    if not node.attr_bool("include_self", True):
        raise node.unsupported("include_self=False")
    updates = node.tensor_of("src", x.details.dtype)
    wanted = index.details.plain_dims
    if not updates.details.rank:
        updates = broadcast_to(node, updates, wanted)
    if updates.details.rank != len(wanted):
        raise node.rule("src must have the axes of index", f"{updates.details}, {index.details}")
    for axis_, size in enumerate(wanted):  # src may be larger than index: only its start is used
        if updates.details.plain_dims[axis_] > size:
            updates = node.sliced(updates, axis_, 0, size)
    return node.make("scatter_elements", x, index, updates, axis=axis, reduction=reduction)


def _write_elements(e: Exporter, op: Op, type_name: str) -> Any:
    """torch.gather, scatter, scatter_add and scatter_reduce; the second operand are the indices."""
    x, index, *updates = op.inputs
    tensors = [e.operand(x), _indices(e, op, index), *map(e.operand, updates)]
    params = {"dim": op.attr("axis")}
    reduction = op.attr("reduction") if updates else "none"
    if reduction == "add":
        type_name = "torch.scatter_add"
    elif reduction != "none":
        type_name, params["reduce"] = "torch.scatter_reduce", _REDUCTIONS[reduction]
    operands = zip(("input", "index", "src"), tensors, strict=False)
    return e.emit(op, type_name, list(operands), params)


# Scans.


def _read_scan(node: Node, op_name: str) -> Value:
    """Cumulative sums and products; small integers and bools become s64."""
    x = node.tensor_of()
    wanted = node.dtype() or (x.details.dtype if x.details.dtype.is_float else S64)
    x, axis = node.converted(x, wanted), node.axis(node.attr_int("dim", 0), x.details.rank)
    return node.make(op_name, x, axis=axis) if x.details.rank else x


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


PAIRS = {
    "index": Pair(_read_index),
    "index_put": Pair(_read_index_put),
    "slice_assign": Pair(_read_slice_assign),
    "gather": Pair(None, _write_gather),
    "elements": Pair(None, _write_elements),
    "scatter": Pair(_read_scatter, _write_elements),
    "scan": Pair(_read_scan, _write_scan),
}
"""Functions that rows name after `by`."""
