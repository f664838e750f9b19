"""Reads index expressions; writes lookups, assignments and scans."""

from __future__ import annotations

from typing import Any

from ...base.dtypes import S32, S64
from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.compositions.assignment import pick, put
from ..correspondence.reading import Pair
from ..torch_calls.indexing import SCATTER_REDUCTIONS
from .export import WORDS, Exporter
from .expression import evaluate_expression, parse_expression
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
    flipped = e.append("torch.flip", f"{op.name}.flip", [operand], x, turn)
    total = e.append(type_name, op.name, [flipped], x, params)
    return e.append("torch.flip", f"{op.name}.back", [total], x, turn)


PAIRS = {"index": Pair(_read_index), "index_put": Pair(_read_index_put)}
"""Functions that read what only this format writes so, by the name after `by`."""

WRITES = {
    "gather": _write_gather,
    "elements": _write_elements,
    "scatter": _write_elements,
    "scan": _write_scan,
}
