"""Elementwise operators of ATen with arguments that functions of Python lack."""

from __future__ import annotations

import math

from ...base.dtypes import BOOL, S16, S32, S64, U8
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.arithmetic import erfc
from ..op_builder import like
from ..torch_calls.arithmetic import as_float, promoted
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


def _read_clamp_bound(node: Node) -> Value:
    """clamp_min and clamp_max, whose bound may be a tensor."""
    return READS["clamp"](node, "clamp")


def _read_larger(node: Node) -> Value:
    """fmax and fmin: of a number and NaN, the number."""
    x, y = promoted(node, node.operand(), node.operand("other"))
    op_name = node.type[-3:]
    if not x.details.dtype.is_float:
        return node.make(op_name, x, y)
    both = node.helper(op_name, x, y)
    y = node.helper("select", node.helper("isnan", y), x, both)
    return node.make("select", node.helper("isnan", x), node.tensor_of("other", x.details.dtype), y)


def _sign_bit(node: Node, x: GraphTensor) -> GraphTensor:
    """Whether a number is negative, -0.0 and negative NaN too."""
    dtype = x.details.dtype
    if dtype.is_float:
        bits = {16: S16, 32: S32, 64: S64}[dtype.numpy.itemsize * 8]
        x = node.helper("bitcast", x, dtype=bits.name)
    if dtype in (BOOL, U8):
        return node.helper("ne", x, x)
    return node.make("lt", x, like(node, 0, x))


def _read_sign(node: Node) -> Results:
    """That of NaN is 0."""
    x = node.operand()
    if not isinstance(x, GraphTensor) or not x.details.dtype.is_float:
        return CALLS["sign"].run(node)
    nothing = node.helper("isnan", x)
    return node.make("select", nothing, like(node, 0, x), node.helper("sign", x))


def _read_sign_bit(node: Node) -> Value:
    return _sign_bit(node, node.tensor_of())


def _read_copy_sign(node: Node) -> Value:
    """|x| with the sign of y."""
    x, y = (as_float(node, z) for z in promoted(node, node.operand(), node.operand("other")))
    size = node.helper("abs", x)
    return node.make("select", _sign_bit(node.part(), y), node.helper("neg", size), size)  # type: ignore[arg-type]


def _read_angle(node: Node) -> Value:
    """Of real numbers: pi below 0, else 0."""
    x = as_float(node, node.tensor_of())
    below = node.helper("lt", x, like(node, 0, x))
    turned = node.helper("select", below, like(node, math.pi, x), like(node, 0, x))
    return node.make("select", node.helper("isnan", x), x, turned)


def _read_erfc(node: Node) -> Value:
    return erfc(node, as_float(node, node.operand()))


HANDLERS: dict[str, Read] = {
    "elu": _read_elu,
    "round": _read_round,
    "clamp_min": _read_clamp_bound,
    "clamp_max": _read_clamp_bound,
    **dict.fromkeys(("erfc", "special_erfc"), _read_erfc),
    "fmax": _read_larger,
    "fmin": _read_larger,
    "signbit": _read_sign_bit,
    "sign": _read_sign,
    "copysign": _read_copy_sign,
    "angle": _read_angle,
}
"""Operators of this family."""
