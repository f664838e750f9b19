"""Normalizations, as modules with weights and as functions of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph_ir.ir.graph import GraphTensor
from ..refusals import FOR_INFERENCE
from .call import Call, Value
from .promotion import promote

DEFAULT_EPSILON = 1e-5
MACHINE_EPSILON = {"f64": 2.0**-52, "f32": 2.0**-23, "bf16": 2.0**-7, "f16": 2.0**-10}


def _scale_and_bias(node: Call, x: GraphTensor, dims: tuple[int, ...]) -> list[GraphTensor]:
    """Neither, only the scale, or both: a bias without a scale gets a scale of ones."""
    scale, bias = (node.optional(name) for name in ("weight", "bias"))
    if scale is None and bias is not None:
        scale = node.constant(np.ones(dims), x.details.dtype)
    given = [p for p in (scale, bias) if p is not None]
    if any(p.details.plain_dims != dims for p in given):
        shapes = " and ".join(str(p.details) for p in given)
        raise node.rule(f"weight and bias must have shape {list(dims)}", shapes)
    return given


def _apply(
    node: Call, op_name: str, x: GraphTensor, parameters: list[GraphTensor], **attrs: Any
) -> GraphTensor:
    """The op on x and its parameters in their common type, the result in x's: f32 weights of a 16-bit x count."""
    common = x.details.dtype
    for parameter in parameters:
        common = promote(common, parameter.details.dtype)
    inputs = (node.converted(p, common) for p in (x, *parameters))
    return node.converted(node.make(op_name, *inputs, **attrs), x.details.dtype)


def _read_over_last(node: Call, op_name: str) -> Value:
    """Over the last axes, whose sizes are given. RMS norm has the epsilon of the type where there is none."""
    x, dims = node.tensor_of(), node.attr_ints("normalized_shape")
    axis, default = x.details.rank - len(dims), DEFAULT_EPSILON
    if not dims or x.details.plain_dims[max(axis, 0) :] != dims:
        raise node.rule(f"the input must end with sizes {list(dims)}", str(x.details))
    if op_name == "rms_norm":
        default = MACHINE_EPSILON.get(x.details.dtype.name, default)
    parameters = _scale_and_bias(node, x, dims)
    epsilon = node.attr_float("eps", default)
    return _apply(node, op_name, x, parameters, axis=axis, epsilon=epsilon)


def _read_per_channel(node: Call, op_name: str) -> Value:
    """Batch, instance and group norm; the module of an instance norm takes a single image too."""
    x = node.tensor_of()
    dims = x.details.plain_dims
    is_instance = op_name == "instance_norm"
    if is_instance and node.is_module and len(dims) == int(node.type[-2]) + 1:
        x = node.reshaped(x, (1, *dims))
    if x.details.rank < 2:
        raise node.rule("the input must have a batch and a channel axis", str(x.details))
    if node.attr_bool("training", False):
        raise node.unsupported("training=True", FOR_INFERENCE)
    parameters = _scale_and_bias(node, x, x.details.plain_dims[1:2])
    attrs: dict[str, Any] = {"epsilon": node.attr_float("eps", DEFAULT_EPSILON)}
    if op_name == "group_norm":
        attrs["groups"] = node.attr_int("num_groups")
    if op_name == "batch_norm" or (is_instance and _keeps_statistics(node)):
        op_name = "batch_norm"
        parameters = [*_filled(node, x, parameters), *map(node.tensor_of, _STATISTICS)]
    return node.reshaped(_apply(node, op_name, x, parameters, **attrs), dims)


_STATISTICS = ("running_mean", "running_var")


def _keeps_statistics(node: Call) -> bool:
    """Return whether an instance norm uses statistics of training, which are then those of all images."""
    for name in _STATISTICS:
        node.argument(name)
    if node.is_module:
        return node.attr_bool("track_running_stats", False)
    return not node.attr_bool("use_input_stats", True)


def _filled(node: Call, x: GraphTensor, parameters: list[GraphTensor]) -> list[GraphTensor]:
    """A scale and a bias, of ones and zeros where there are none."""
    values = (np.ones(x.details.plain_dims[1:2]), np.zeros(x.details.plain_dims[1:2]))
    missing = values[len(parameters) :]
    return [*parameters, *(node.constant(value, x.details.dtype) for value in missing)]


READS = {"over_last": _read_over_last, "per_channel": _read_per_channel}
