"""Writes normalizations."""

from __future__ import annotations

from typing import Any

from ...graph_ir.ir.graph import Op
from ..correspondence.writing import InexpressibleError
from .export import Exporter


def _write_over_last(e: Exporter, op: Op, type_name: str) -> Any:
    """Parameters that repeat along some of the axes are expanded."""
    x, *parameters = op.inputs
    dims = x.details.plain_dims[op.attr("axis") :]
    operands = [e.operand(x)]
    for p in parameters:
        if p.details.rank > len(dims):
            raise InexpressibleError(f"{op.op_name} with parameters of {p.details}")
        operand = e.operand(p)
        if p.details.plain_dims != dims:
            operand = e.part(op, "expand", "Tensor.expand", [operand], dims, {"sizes": dims})
        operands.append(operand)
    params = {"normalized_shape": dims, "eps": op.attr("epsilon")}
    named = zip(("input", "weight", "bias"), operands, strict=False)
    return e.emit(op, type_name, list(named), params)


WRITES = {"over_last": _write_over_last}
