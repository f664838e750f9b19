"""Elementwise operators of ATen with arguments that functions of Python lack."""

from __future__ import annotations

import math
from typing import Any

from ...base.dtypes import S16, S32, S64
from ...base.size_limits import broadcast_sizes
from ...graph_ir.ir.graph import Graph, GraphTensor
from ..correspondence.compositions.control import while_loop
from ..correspondence.compositions.special import fraction_and_exponent
from ..op_builder import OpBuilder, like
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


def _read_angle(node: Node) -> Value:
    """Read torch.angle of real numbers: pi below 0, else 0."""
    x = as_float(node, node.tensor_of())
    below = node.helper("lt", x, like(node, 0, x))
    angle = node.helper("select", below, like(node, math.pi, x), like(node, 0, x))
    return node.make("select", node.helper("isnan", x), x, angle)


def _read_gcd(node: Node) -> Value:
    """Euclid's algorithm, for all elements until none has a remainder; and the least common multiple by it."""
    a, b = (
        node.helper("abs", x) for x in promoted(node, node.operand("self"), node.operand("other"))
    )
    dims = broadcast_sizes(a.details.plain_dims, b.details.plain_dims)
    a, b = (node.broadcast(x, dims) for x in (a, b))

    def goes_on(graph: Graph, own: list[GraphTensor], _: list[GraphTensor]) -> GraphTensor:
        build = OpBuilder(graph, node.type, node.name)
        left = build.helper("ne", own[1], like(build, 0, own[1]))
        return build.helper("reduce_any", left, axes=tuple(range(len(dims))), keep_dims=False)

    def once(graph: Graph, _: Any, own: list[GraphTensor], __: Any) -> list[GraphTensor]:
        build = OpBuilder(graph, node.type, node.name)
        is_done = build.helper("eq", own[1], like(build, 0, own[1]))
        rest = build.helper("select", is_done, own[1], build.helper("mod", *own))
        return [build.helper("select", is_done, *own), rest]

    (found, _) = while_loop(node, [a, b], [], goes_on, once)
    return found if "gcd" in node.type else node.make("mul", node.helper("div", a, found), b)


def _read_next(node: Node) -> Value:
    """The bits of x more or less by one, toward y; next to 0 is the smallest number of y's sign."""
    x, y = promoted(node, node.operand("self"), node.operand("other"))
    none, bits = like(node, 0, x), {2: S16, 4: S32, 8: S64}[x.details.dtype.size]
    held = node.helper("bitcast", x, dtype=bits)
    one, zero = node.constant(1, bits), node.constant(0, bits)
    rises, is_positive = node.helper("gt", y, x), node.helper("ge", held, zero)
    step = node.helper("select", node.helper("ne", rises, is_positive), like(node, -1, held), one)
    moved = node.helper("bitcast", node.helper("add", held, step), dtype=x.details.dtype)
    least = node.helper("bitcast", one, dtype=x.details.dtype)
    least = node.helper("select", node.helper("gt", y, none), least, node.helper("neg", least))
    moved = node.helper("select", node.helper("eq", x, none), least, moved)
    moved = node.helper("select", node.helper("eq", x, y), y, moved)
    is_nan = node.helper("or", *(node.helper("isnan", z) for z in (x, y)))
    return node.make("select", is_nan, node.helper("add", x, y), moved)


HANDLERS: dict[str, Read] = {
    **dict.fromkeys(("gcd", "lcm"), _read_gcd),
    "nextafter": _read_next,
    "prims::frexp": lambda node: fraction_and_exponent(node, node.tensor_of("self")),
    "elu": _read_elu,
    "round": _read_round,
    "clamp_min": _read_clamp_bound,
    "clamp_max": _read_clamp_bound,
    "angle": _read_angle,
}
"""Operators of this family."""
