"""Writes normalizations as GE nodes. Parameters that the op omits become ones and zeros."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph_ir.ir.graph import Op
from .document import Reference
from .dump_builder import DumpBuilder, Emit


def _parameter(builder: DumpBuilder, op: Op, index: int, wanted: Sequence[int]) -> Reference:
    """Input `index` in the shape GE wants, or the value that changes nothing: 1 for a scale, 0 for a shift."""
    dtype = op.inputs[0].details.dtype.numpy
    if index >= len(op.inputs):
        value = np.full(wanted, 1 if index == 1 else 0, dtype)
        return builder.const(value, op, "scale" if index == 1 else "bias")
    parameter = builder.references[op.inputs[index]]
    if op.inputs[index].details.plain_dims == tuple(wanted):
        return parameter
    return builder.part(op, "BroadcastTo", builder.shaped(op, parameter, wanted))


def _over_last_axes(builder: DumpBuilder, op: Op) -> None:
    dims = op.inputs[0].details.plain_dims
    axis = op.attr("axis")
    is_layer = op.op_name == "layer_norm"
    inputs = {"x": builder.references[op.inputs[0]]}
    for index, name in enumerate(("gamma", "beta")[: 2 if is_layer else 1], 1):
        inputs[name] = _parameter(builder, op, index, dims[axis:])
    if is_layer:
        axes = {"begin_norm_axis": axis, "begin_params_axis": axis}
        first = builder.node(
            "LayerNormV3", op.name, inputs, {**axes, "epsilon": op.attr("epsilon")}, outputs=3
        )
    else:
        first = builder.node("RmsNorm", op.name, inputs, {"epsilon": op.attr("epsilon")}, outputs=2)
    builder.references[op.outputs[0]] = first


def _over_groups(builder: DumpBuilder, op: Op) -> None:
    channels = op.inputs[0].details.plain_dims[1]
    inputs = {"x": builder.references[op.inputs[0]]}
    for index, name in enumerate(("gamma", "beta"), 1):
        inputs[name] = _parameter(builder, op, index, (channels,))
    if op.op_name == "group_norm":
        name, attrs = "GroupNorm", {"num_groups": op.attr("groups"), "eps": op.attr("epsilon")}
    else:
        name, attrs = "InstanceNorm", {"epsilon": op.attr("epsilon")}
    first = builder.node(name, op.name, inputs, {"data_format": "NCHW", **attrs}, outputs=3)
    builder.references[op.outputs[0]] = first


EXPORTERS: dict[str, Emit] = {
    "layer_norm": _over_last_axes,
    "rms_norm": _over_last_axes,
    "group_norm": _over_groups,
    "instance_norm": _over_groups,
}
"""Writers by op name."""
