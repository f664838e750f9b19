"""Writes reductions over axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.dtypes import S64
from ...graph_ir.ir.graph import Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.writing import InexpressibleError
from .export import WORDS, Exporter


def _write_reduce(e: Exporter, op: Op, type_name: str) -> str:
    x, axes, keep = op.inputs[0].details, op.axes, op.attr("keep_dims")  # type: ignore[attr-defined]
    params: dict[str, Any] = {"dim": axes, "keepdim": keep}
    if type_name in ("torch.sum", "torch.prod") and not x.dtype.is_float and x.dtype != S64:
        params["dtype"] = WORDS[x.dtype.name]
    if type_name == "torch.norm":
        params["p"] = 1 if op.op_name == "reduce_l1" else 2
    if not axes and x.rank:
        raise InexpressibleError(f"{op.op_name} over no axes")
    if type_name == "torch.prod":
        if len(axes) > 1:
            return _reduce_prod_by_axis(e, op, axes, keep, params)
        params["dim"] = axes[0] if axes else None
    return e.call(op, type_name, **params)


def _reduce_prod_by_axis(
    e: Exporter, op: Op, axes: Sequence[int], keep: bool, params: dict[str, Any]
) -> str:
    """torch.prod takes one dim: reduce the last one first, so that the others keep their numbers."""
    x = op.inputs[0].details
    operand, dims = e.operand(op.inputs[0]), list(x.plain_dims)
    for axis in reversed(axes):
        dims[axis : axis + 1] = [1] if keep else []
        result = LogicalTensor(x.dtype, tuple(dims))
        operand = e.append("torch.prod", op.name, [operand], result, {**params, "dim": axis})
    return operand


WRITES = {"reduce": _write_reduce, "norm": _write_reduce}
