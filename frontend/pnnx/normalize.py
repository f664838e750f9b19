"""Normalisations, as modules with weights and as functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.dtypes import DType
from ...graph_ir.ir.graph import GraphTensor
from .builder import Builder
from .promotion import promote
from .reduce import power_norm
from .scope import Handler, Node, Value

DEFAULT_EPSILON = 1e-5
MACHINE_EPSILON = {"f64": 2.0**-52, "f32": 2.0**-23, "bf16": 2.0**-7, "f16": 2.0**-10}

Parameters = list["GraphTensor | None"]


def _parameters(node: Node, is_affine: str, *keys: str) -> Parameters:
    """Weights of a module, unless its flag `is_affine` is off; inputs of a function."""
    if not node.type.startswith("nn."):
        return [node.optional(key) for key in keys]
    if not node.attr_bool(is_affine, True):
        return [None] * len(keys)
    return [node.weight(key) if key in node.op.attributes else None for key in keys]


def _apply(
    node: Node, op_name: str, x: GraphTensor, given: Parameters, **attrs: Any
) -> GraphTensor:
    """The op on x and its parameters in their common type, the result in x's: f32 weights of a 16-bit x count."""
    inputs = [x, *(p for p in given if p is not None)]
    dtype = x.details.dtype
    common = dtype
    for parameter in inputs[1:]:
        common = promote(common, parameter.details.dtype)
    return node.converted(
        node.make(op_name, *(node.converted(p, common) for p in inputs), **attrs), dtype
    )


def _scale_and_bias(
    b: Builder, given: Parameters, dims: tuple[int, ...], dtype: DType
) -> Parameters:
    """Neither, only the scale, or both: a bias without a scale gets a scale of ones."""
    scale, bias = given
    if scale is None and bias is not None:
        scale = b.constant(np.ones(dims), dtype)
    return [scale, bias]


def _over_last_axes(op_name: str, is_rms: bool) -> Callable[[Node], Value]:
    def run(node: Node) -> Value:
        x = node.tensor_of()
        dims = tuple(node.attr_ints("normalized_shape"))
        axis = x.details.rank - len(dims)
        if not dims or x.details.plain_dims[max(axis, 0) :] != dims:
            raise node.rule(f"the input must end with sizes {list(dims)}", str(x.details))
        given = _parameters(
            node, "elementwise_affine", *(("weight",) if is_rms else ("weight", "bias"))
        )
        if any(p is not None and p.details.plain_dims != dims for p in given):
            shapes = " and ".join(str(p.details) for p in given if p is not None)
            raise node.rule(f"weight and bias must have shape {list(dims)}", shapes)
        if not is_rms:
            if node.type.startswith("nn."):
                node.attr_bool("bias", True)
            given = _scale_and_bias(node, given, dims, x.details.dtype)
        return _apply(node, op_name, x, given, axis=axis, epsilon=_epsilon(node, x, is_rms))

    return run


def _epsilon(node: Node, x: GraphTensor, is_rms: bool) -> float:
    """`eps`; RMS norm takes the dtype's own epsilon where it is not given."""
    if is_rms and not node.given("eps"):
        return MACHINE_EPSILON.get(x.details.dtype.name, DEFAULT_EPSILON)
    return node.attr_float("eps", DEFAULT_EPSILON)


def _group_norm(node: Node) -> Value:
    x = node.tensor_of()
    given = _per_channel(node, x, _parameters(node, "affine", "weight", "bias"))
    epsilon = node.attr_float("eps", DEFAULT_EPSILON)
    return _apply(node, "group_norm", x, given, groups=node.attr_int("num_groups"), epsilon=epsilon)


def _per_channel(node: Node, x: GraphTensor, given: Parameters) -> Parameters:
    if x.details.rank < 2:
        raise node.rule("the input must have a batch and a channel axis", str(x.details))
    return _scale_and_bias(node, given, (x.details.plain_dims[1],), x.details.dtype)


def _instance_norm(spatial: int | None) -> Callable[[Node], Value]:
    """Statistics of each image; `spatial` axes after the channel, any number where it is None."""

    def run(node: Node) -> Value:
        x = node.tensor_of()
        if spatial is not None and x.details.rank == spatial + 1:  # no batch axis
            whole = node.reshaped(x, (1, *x.details.plain_dims))
            return node.reshaped(_normalized_instances(node, whole), x.details.plain_dims)
        return _normalized_instances(node, x)

    return run


def _normalized_instances(node: Node, x: GraphTensor) -> GraphTensor:
    is_module = node.type.startswith("nn.")
    kept = (
        node.attr_bool("track_running_stats", False)
        if is_module
        else not node.attr_bool("use_input_stats", True)
    )
    if not is_module:
        node.argument("running_mean")
        node.argument("running_var")
    if kept:
        return _with_statistics(node, x)
    given = _per_channel(node, x, _parameters(node, "affine", "weight", "bias"))
    return _apply(node, "instance_norm", x, given, epsilon=node.attr_float("eps", DEFAULT_EPSILON))


def _batch_norm(node: Node) -> Value:
    if node.attr_bool("training", False):
        raise node.unsupported("training=True")
    return _with_statistics(node, node.tensor_of())


def _with_statistics(node: Node, x: GraphTensor) -> GraphTensor:
    is_module = node.type.startswith("nn.")
    scale, bias = _per_channel(node, x, _parameters(node, "affine", "weight", "bias"))
    channels, dtype = x.details.plain_dims[1:2], x.details.dtype
    scale = node.constant(np.ones(channels), dtype) if scale is None else scale
    bias = node.constant(np.zeros(channels), dtype) if bias is None else bias
    names = ("running_mean", "running_var")
    statistics = [node.weight(name) if is_module else node.tensor_of(name) for name in names]
    epsilon = node.attr_float("eps", DEFAULT_EPSILON)
    return _apply(node, "batch_norm", x, [scale, bias, *statistics], axis=1, epsilon=epsilon)


def _normalize(node: Node) -> Value:
    """x / max(norm of x along dim, eps)."""
    x = node.tensor_of()
    axis = node.axis(node.attr_int("dim", 1), x.details.rank)
    power = node.attr_float("p", 2.0)
    if power in (1, 2):
        name = "reduce_l1" if power == 1 else "reduce_l2"
        norm = node.helper(name, x, axes=(axis,), keep_dims=True)
    else:
        norm = power_norm(node, x, power, (axis,), keep=True)
    return node.make(
        "div", x, node.helper("clamp", norm, min=node.attr_float("eps", 1e-12), max=None)
    )


_FUNCTION_NORM = ("input", "running_mean", "running_var", "weight", "bias")

HANDLERS: dict[str, Handler] = {
    "nn.LayerNorm": Handler(_over_last_axes("layer_norm", is_rms=False)),
    "F.layer_norm": Handler(
        _over_last_axes("layer_norm", is_rms=False), ("input", "weight", "bias")
    ),
    "nn.RMSNorm": Handler(_over_last_axes("rms_norm", is_rms=True)),
    "F.rms_norm": Handler(_over_last_axes("rms_norm", is_rms=True), ("input", "weight")),
    "nn.GroupNorm": Handler(_group_norm),
    "F.group_norm": Handler(_group_norm, ("input", "weight", "bias")),
    **{f"nn.BatchNorm{n}d": Handler(_batch_norm) for n in (1, 2, 3)},
    "F.batch_norm": Handler(_batch_norm, _FUNCTION_NORM),
    **{f"nn.InstanceNorm{n}d": Handler(_instance_norm(n)) for n in (1, 2, 3)},
    "F.instance_norm": Handler(_instance_norm(None), _FUNCTION_NORM),
    "F.normalize": Handler(_normalize),
}
"""Operators of this family."""
