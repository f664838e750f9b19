"""Reads and writes elementwise operators whose table cells have their own functions."""

from __future__ import annotations

from typing import Any

from ...base.dtypes import BOOL
from ...graph_ir.ir.graph import Op
from ...graph_ir.ops.activation import clamp_limits
from ..correspondence.reading import Pair
from ..correspondence.writing import InexpressibleError
from .arithmetic import read_clamp, read_div
from .export import Exporter
from .scope import Node, Value


def _write_add(e: Exporter, op: Op, _: str) -> Any:
    """The operator of a product whose bias it is, else an expression."""
    product = op.inputs[0].producer_owner
    if id(product) in e.biases:
        return e.writers[product.op_name](e, product)
    return e.expression(op, "or" if op.inputs[0].details.dtype == BOOL else "add")


def _write_div(e: Exporter, op: Op, _: str) -> str:
    if op.inputs[0].details.dtype.is_float:
        return e.expression(op, "div")
    if op.attr("rounding") == "floor":
        return e.expression(op, "floor_divide")
    if id(op.inputs[0].producer_owner) in e.absorbed:
        raise InexpressibleError("div of a number, truncated")
    return e.call(op, "torch.div", "input", "other", rounding_mode="trunc")


def _write_clamp(e: Exporter, op: Op, _: str) -> str:
    limits = clamp_limits(op.inputs[0].details.dtype, op.attr("min"), op.attr("max"))
    if limits == (None, None):
        return e.call(op, "torch.clone")
    return e.call(op, "torch.clamp", min=limits[0], max=limits[1])


def _read_copy(node: Node, _: str) -> Value:
    return node.operand()


def _write_copy(e: Exporter, op: Op, type_name: str) -> Any:
    return e.call(op, type_name)


PAIRS = {
    "add": Pair(None, _write_add),
    "copy": Pair(_read_copy, _write_copy),
    "div": Pair(read_div, _write_div),
    "clamp": Pair(read_clamp, _write_clamp),
}
"""Functions that read and write cells a row cannot express, by the name after `by`."""
