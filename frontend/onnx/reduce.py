"""Reductions over axes that are an attribute in old models and an input in new ones: read, and written."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ...graph_ir.ir.graph import Op
from ..correspondence.compositions.reduction import PER_ELEMENT, log_sum_exp, reduce
from ..correspondence.reading import Pair
from ..op_builder import Value
from .export import Exporter
from .scope import NodeContext


def _read_reduce(node: NodeContext, op_name: str) -> Value:
    x = node.tensor(0)
    axes = _axes(node, x.details.rank, 13 if op_name == "reduce_sum" else 18)
    if op_name == "reduce_log_sum_exp" and axes != ():
        return log_sum_exp(node, x, axes, node.attr_bool("keepdims"))
    return reduce(node, op_name, x, axes, node.attr_bool("keepdims"))


def _write_reduce(e: Exporter, op: Op, op_type: str) -> None:
    reduction, (x,) = cast(Any, op), e.values(op)
    if reduction.axes:
        axes = e.constant(op, "axes", np.array(reduction.axes, np.int64))
        e.node(op, op_type, [x, axes], keepdims=int(op.attr("keep_dims")))
    elif op.op_name == "reduce_sum_square":
        e.node(op, "Mul", [x, x])
    else:  # of no axes: every element on its own
        e.node(op, PER_ELEMENT.get(op.op_name, "identity").capitalize(), [x])


def _axes(node: NodeContext, rank: int, since: int) -> tuple[int, ...] | None:
    """Axes to reduce, counted from the front; None for all."""
    if node.opset >= since:
        given = node.ints(1, "axes") if node.has(1) else None
    else:
        given = node.attr_ints("axes", None)
    if not given:
        return () if node.attr_int("noop_with_empty_axes") else None
    axes = tuple(node.axis(axis, rank) for axis in given)
    if len(set(axes)) != len(axes):
        raise node.rule("axes must be distinct", str(given))
    return axes


PAIRS = {"reduce": Pair(_read_reduce, _write_reduce)}
