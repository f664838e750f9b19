"""Elementwise operators of ATen with arguments that functions of Python lack."""

from __future__ import annotations

import math

from ..correspondence.compositions.special import fraction_and_exponent
from ..op_builder import like
from ..torch_calls.arithmetic import as_float
from ..torch_calls.call import Results, Value
from ..torch_calls.op_table import CALLS, READS
from .node import Node, Read


def _read_elu(node: Node) -> Value:
    """scale * x above 0, scale * alpha * (exp(x * input_scale) - 1) below: selu too."""
    x = node.tensor_of()
    alpha, scale, inner = (node.attr_float(name, 1.0) for name in ("alpha", "scale", "input_scale"))
    if inner == 1:
        y = node.make("elu", x, alpha=alpha)
        return y if scale == 1 else node.helper("mul", y, like(node, scale, y))
    bent = node.helper("expm1", node.helper("mul", x, like(node, inner, x)))
    above = node.helper("gt", x, like(node, 0, x))
    y = node.helper("select", above, x, node.helper("mul", bent, like(node, alpha, x)))
    return node.make("mul", y, like(node, scale, x))


def _read_round(node: Node) -> Results:
    """To a number of decimals: in the integers of that power of ten."""
    decimals = node.attr_int("decimals", 0)
    if not decimals:
        return CALLS["round"].run(node)
    x = node.tensor_of()
    power = like(node, 10.0 ** abs(decimals), x)
    up, down = ("mul", "div") if decimals > 0 else ("div", "mul")
    return node.make(down, node.helper("round", node.helper(up, x, power)), power)


def _read_angle(node: Node) -> Value:
    """Read torch.angle of real numbers: pi below 0, else 0."""
    x = as_float(node, node.tensor_of())
    below = node.helper("lt", x, like(node, 0, x))
    angle = node.helper("select", below, like(node, math.pi, x), like(node, 0, x))
    return node.make("select", node.helper("isnan", x), x, angle)


HANDLERS: dict[str, Read] = {
    "prims::frexp": lambda node: fraction_and_exponent(node, node.tensor_of("self")),
    "elu": _read_elu,
    "round": _read_round,
    **dict.fromkeys(("clamp_min", "clamp_max"), lambda node: READS["clamp"](node, "clamp")),
    "angle": _read_angle,
}
