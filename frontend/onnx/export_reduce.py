"""Normalisations as ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from ...graph_ir.ir.graph import Op
from ..correspondence.writing import InexpressibleError
from .export import Exporter

Emit = Callable[[Exporter, Op], None]


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
    "layer_norm": _normal("LayerNormalization"),
    "rms_norm": _normal("RMSNormalization"),
    "group_norm": _per_channel("GroupNormalization"),
    "instance_norm": _per_channel("InstanceNormalization"),
    "batch_norm": _batch_norm,
}
