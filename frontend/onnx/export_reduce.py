"""Reductions, softmax and normalisations as ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from ...graph_ir.ir.graph import Op
from .export import Exporter, InexpressibleError

Emit = Callable[[Exporter, Op], None]

_REDUCTIONS = {
    "reduce_sum": "ReduceSum",
    "reduce_mean": "ReduceMean",
    "reduce_max": "ReduceMax",
    "reduce_min": "ReduceMin",
    "reduce_prod": "ReduceProd",
    "reduce_l1": "ReduceL1",
    "reduce_l2": "ReduceL2",
    "reduce_log_sum": "ReduceLogSum",
    "reduce_sum_square": "ReduceSumSquare",
    "reduce_log_sum_exp": "ReduceLogSumExp",
    "reduce_any": "ReduceMax",
    "reduce_all": "ReduceMin",
}
_OVER_NOTHING = {"reduce_l1": "Abs", "reduce_l2": "Abs", "reduce_log_sum": "Log"}


def _reduce(e: Exporter, op: Op) -> None:
    reduction, (x,) = cast(Any, op), e.values(op)
    if reduction.axes:
        axes = e.constant(op, "axes", np.array(reduction.axes, np.int64))
        keep = int(bool(op.attrs.get("keep_dims", False)))
        e.node(op, _REDUCTIONS[op.op_name], [x, axes], keepdims=keep)
    elif op.op_name == "reduce_sum_square":
        e.node(op, "Mul", [x, x])
    else:  # of no axes: every element on its own
        e.node(op, _OVER_NOTHING.get(op.op_name, "Identity"), [x])


def _arg(op_type: str) -> Emit:
    def emit(e: Exporter, op: Op) -> None:
        flags = {
            "keepdims": int(bool(op.attrs.get("keep_dims", False))),
            "select_last_index": 1 if op.attrs.get("last") else None,
        }
        e.node(op, op_type, e.values(op), axis=cast(Any, op).axis, **flags)

    return emit


def _softmax(op_type: str) -> Emit:
    return lambda e, op: e.node(op, op_type, e.values(op), axis=cast(Any, op).axis)


def _normal(op_type: str) -> Emit:
    """Layer and RMS norm: the scale must be there."""

    def emit(e: Exporter, op: Op) -> None:
        x, *parameters = e.values(op)
        axes = cast(Any, op).axes
        if not parameters:
            dims = [op.inputs[0].details.plain_dims[axis] for axis in axes]
            parameters = [_filled(e, op, "scale", 1, dims)]
        axis, epsilon = min(axes), cast(Any, op).epsilon
        e.node(op, op_type, [x, *parameters], axis=axis, epsilon=epsilon)

    return emit


def _filled(e: Exporter, op: Op, what: str, value: int, dims: list[int]) -> str:
    return e.constant(op, what, np.full(dims, value).astype(op.inputs[0].details.dtype.numpy))


def _per_channel(op_type: str) -> Emit:
    """Group and instance norm: one scale and one bias per channel, which must be there."""

    def emit(e: Exporter, op: Op) -> None:
        x, *parameters = e.values(op)
        channels = [op.inputs[0].details.plain_dims[1]]
        for what, value in (("scale", 1), ("bias", 0))[len(parameters) :]:
            parameters.append(_filled(e, op, what, value, channels))
        groups = {"num_groups": int(op.attrs.get("groups", 1))} if op_type[0] == "G" else {}
        e.node(op, op_type, [x, *parameters], epsilon=cast(Any, op).epsilon, **groups)

    return emit


def _batch_norm(e: Exporter, op: Op) -> None:
    if cast(Any, op).axis != 1:
        raise InexpressibleError("batch_norm of another axis than 1")
    e.node(op, "BatchNormalization", e.values(op), epsilon=cast(Any, op).epsilon)


EXPORTERS: dict[str, Emit] = {
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "arg_max": _arg("ArgMax"),
    "arg_min": _arg("ArgMin"),
    "softmax": _softmax("Softmax"),
    "log_softmax": _softmax("LogSoftmax"),
    "layer_norm": _normal("LayerNormalization"),
    "rms_norm": _normal("RMSNormalization"),
    "group_norm": _per_channel("GroupNormalization"),
    "instance_norm": _per_channel("InstanceNormalization"),
    "batch_norm": _batch_norm,
}
