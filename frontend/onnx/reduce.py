"""Reductions: Reduce*, ArgMax, ArgMin."""

from __future__ import annotations

import math

from ...base.dtypes import BOOL
from ...graph_ir.ir.graph import GraphTensor
from .scope import Handler, NodeContext, Value

# The largest finite value of each float type.
_LARGEST = {
    "f16": 65504.0,
    "bf16": 3.3895313892515355e38,
    "f32": 3.4028234663852886e38,
    "f64": 1.7976931348623157e308,
}

_PER_ELEMENT = {  # what remains of a reduction over no axes
    "reduce_l1": "abs",
    "reduce_l2": "abs",
    "reduce_sum_square": "square",
    "reduce_log_sum": "log",
}


def _reduce(op_name: str, axes_are_input_since: int = 18) -> Handler:
    def handler(node: NodeContext) -> Value:
        x = node.tensor(0)
        axes = _axes(node, x.details.rank, axes_are_input_since)
        if axes == ():
            return node.make(_PER_ELEMENT[op_name], [x]) if op_name in _PER_ELEMENT else x
        kind = op_name
        if x.details.dtype == BOOL:
            kind = {"reduce_max": "reduce_any", "reduce_min": "reduce_all"}.get(op_name, op_name)
        return node.make(kind, [x], {"axes": axes, "keep_dims": _keep_dims(node)})

    return handler


def _keep_dims(node: NodeContext) -> bool:
    return bool(node.attr_int("keepdims", 1))


def _axes(node: NodeContext, rank: int, since: int) -> tuple[int, ...] | None:
    """Axes to reduce, counted from the front; None for all."""
    if node.opset >= since:
        given = node.ints(1, "axes") if node.has(1) else None
    else:
        given = node.attr_ints("axes")
    if not given:
        return () if node.attr_int("noop_with_empty_axes", 0) else None
    axes = tuple(node.axis(axis, rank) for axis in given)
    if len(set(axes)) != len(axes):
        raise node.rule("axes must be distinct", str(given))
    return axes


def _log_sum_exp(node: NodeContext) -> Value:
    x = node.tensor(0)
    axes = _axes(node, x.details.rank, 18)
    if axes == ():
        return x  # log(exp(x))
    dtype = x.details.dtype
    if not x.details.elements:  # there is no largest element to keep exp from overflowing with
        total = node.helper("reduce_sum", [x], {"axes": axes, "keep_dims": _keep_dims(node)})
        return node.make("log", [total])
    # The largest element is taken out so that exp cannot overflow, unless it is infinite: inf - inf is NaN.
    bound = _LARGEST.get(dtype.name, math.inf)
    largest = node.helper("reduce_max", [x], {"axes": axes, "keep_dims": True})
    largest = node.helper("clamp", [largest], {"min": -bound, "max": bound})
    spread = node.helper("exp", [node.helper("sub", [x, largest])])
    total = node.helper("reduce_sum", [spread], {"axes": axes, "keep_dims": True})
    result = node.make("add", [node.helper("log", [total]), largest])
    if _keep_dims(node):
        return result
    reduced = set(range(x.details.rank)) if axes is None else set(axes)
    return node.reshaped(
        result, [d for i, d in enumerate(x.details.plain_dims) if i not in reduced]
    )


def _arg(op_name: str) -> Handler:
    def handler(node: NodeContext) -> Value:
        x = node.tensor(0)
        dims = x.details.plain_dims
        axis = node.axis(node.attr_int("axis", 0), len(dims))
        attrs = {"axis": axis, "keep_dims": _keep_dims(node)}
        if not node.attr_int("select_last_index", 0):
            return node.make(op_name, [x], attrs)
        found = node.make(op_name, [_flipped(node, x, axis)], attrs)
        return node.helper("sub", [node.constant(dims[axis] - 1, found.details.dtype), found])

    return handler


def _flipped(node: NodeContext, x: GraphTensor, axis: int) -> GraphTensor:
    dims = x.details.plain_dims
    if not dims[axis]:
        raise node.rule(f"axis {axis} must have elements", str(x.details))
    starts = tuple(d - 1 if i == axis else 0 for i, d in enumerate(dims))
    steps = tuple(-1 if i == axis else 1 for i in range(len(dims)))
    return node.helper("slice", [x], {"starts": starts, "steps": steps, "sizes": dims})


HANDLERS: dict[str, Handler] = {
    "ReduceSum": _reduce("reduce_sum", 13),
    "ReduceMean": _reduce("reduce_mean"),
    "ReduceMax": _reduce("reduce_max"),
    "ReduceMin": _reduce("reduce_min"),
    "ReduceProd": _reduce("reduce_prod"),
    "ReduceL1": _reduce("reduce_l1"),
    "ReduceL2": _reduce("reduce_l2"),
    "ReduceLogSum": _reduce("reduce_log_sum"),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceSumSquare": _reduce("reduce_sum_square"),
    "ArgMax": _arg("arg_max"),
    "ArgMin": _arg("arg_min"),
}
