"""Semantics of opset 6 that differ from 7: a second operand that starts at an axis of the first, and layers
that train."""

from __future__ import annotations

import math

from onnx import NodeProto, helper

from ...base.errors import UnsupportedError
from ..correspondence.scoped import details_of
from ..op_builder import OpBuilder
from ..refusals import FOR_INFERENCE
from .scope import Scope, node_name

_TRAINS = ("BatchNormalization", "Dropout")
_ALIGNED = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
_OTHERS = {"Upsample": ("width_scale", "height_scale"), "GRU": ("output_sequence",)}
_OTHERS |= dict.fromkeys(("LSTM", "RNN"), _OTHERS["GRU"])


def in_opset_7(node: NodeProto, scope: Scope) -> NodeProto:
    """The node as opset 7 writes it; its second operand is reshaped where that needs an axis. May raise
    UnsupportedError."""
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    who = f"{node.op_type} '{node_name(node)}'"
    if node.op_type in _TRAINS and not given.get("is_test"):
        raise UnsupportedError(f"{who}: training mode is not supported", FOR_INFERENCE)
    for name in _OTHERS.get(node.op_type, ()):
        if name in given:
            raise UnsupportedError(
                f"{who}: attribute '{name}' of opset 6 is not supported",
                "export it with a later opset",
            )
    if node.op_type == "PRelu":  # a slope for each channel
        given["axis"] = 1
    elif node.op_type not in _ALIGNED or "axis" not in given:
        return node
    first, second = (scope.values[name] for name in node.input)
    rank, dims = details_of(first).rank, details_of(second).plain_dims
    if math.prod(dims) == 1:
        return node
    build = OpBuilder(scope.graph, node.op_type, node_name(node))
    after = rank - build.axis(given["axis"], rank) - len(dims)
    if after < 0:
        raise build.rule("the second operand must end inside the first", f"axis {given['axis']}")
    aligned = NodeProto()
    aligned.CopyFrom(node)
    aligned.input[1] = f"{node_name(node)}.aligned"
    scope.values[aligned.input[1]] = build.reshaped(
        scope.tensor(node.input[1]), (*dims, *(1,) * after)
    )
    return aligned
