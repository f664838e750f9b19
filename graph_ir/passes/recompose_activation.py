"""Recognize activation functions that exporters decomposed."""

from __future__ import annotations

import math

from ..ir.graph import Graph, GraphTensor, Op
from ..rewriting.pattern import (
    Build,
    Capture,
    Match,
    Scalar,
    either,
    make_instead,
    multiplied,
    node,
    recipe,
)
from ..rewriting.rewrite import Rule, rewrite
from ..schedule.context import LowerContext


def recompose_activation(graph: Graph, ctx: LowerContext) -> bool:
    """Reassemble sigmoid, silu, softplus, mish, softsign, hard_sigmoid, hard_swish and gelu (both forms).

    %e = erf(div(%x, 1.4142135)); %a = add(%e, 1); %m = mul(%x, %a); %y = mul(%m, 0.5)
    ->
    %y = gelu(%x)

    Requires: topological order; folded constants.
    Ensures: topological order; none of the patterns below is left. Results may round differently.
    """
    return rewrite(graph, RULES)


_X = Capture("x")
_SQUARE = either(node("square", _X), node("mul", _X, _X), node("pow", _X, 2))
_CUBE = either(node("mul", _SQUARE, _X), node("pow", _X, 3))

_EXP_PLUS_1 = node("add", node("exp", node("neg", _X)), 1)
_SIGMOID = either(node("div", 1, _EXP_PLUS_1), node("reciprocal", _EXP_PLUS_1))
_SILU = either(node("mul", _X, either(node("sigmoid", _X), _SIGMOID)), node("div", _X, _EXP_PLUS_1))

_SOFTPLUS = either(node("log1p", node("exp", _X)), node("log", node("add", node("exp", _X), 1)))
_MISH = node("mul", _X, node("tanh", either(node("softplus", _X), _SOFTPLUS)))
_SOFTSIGN = node("div", _X, node("add", node("abs", _X), 1))

_SHIFTED = node("add", _X, 3)
_RELU6 = either(
    node("clamp", _SHIFTED, min=0, max=6),
    node("min", either(node("relu", _SHIFTED), node("max", _SHIFTED, 0)), 6),
    node("max", node("min", _SHIFTED, 6), 0),
    node("relu", node("min", _SHIFTED, 6)),
)
# HLO has a sixth as the sum of two numbers, which is exact.
_SIXTH = node("add", node("mul", _SHIFTED, 1 / 6), node("mul", _SHIFTED, Scalar(name="rest")))
_HARD_SIGMOID = either(
    node("div", _RELU6, 6),
    node("mul", _RELU6, 1 / 6),
    node("relu", node("min", _SIXTH, 1)),
)
_LINE = node("add", node("mul", _X, Scalar(name="alpha")), Scalar(name="beta"))
_CUT_LINE = either(
    node("clamp", _LINE, min=0, max=1),
    node("min", either(node("relu", _LINE), node("max", _LINE, 0)), 1),
    node("max", node("min", _LINE, 1), 0),
    node("relu", node("min", _LINE, 1)),
)
_HARD_SWISH = either(
    node("mul", _X, either(_HARD_SIGMOID, node("hard_sigmoid", _X, alpha=1 / 6, beta=0.5))),
    node("div", node("mul", _X, _RELU6), 6),
    multiplied(_X, _RELU6, 1 / 6),
)

_ERF = node("erf", either(node("div", _X, math.sqrt(2)), node("mul", _X, math.sqrt(0.5))))
_MINUS_ERF = node(
    "erf",
    either(
        node("mul", _X, -math.sqrt(0.5)),
        node("mul", node("neg", _X), math.sqrt(0.5)),
        node("div", node("neg", _X), math.sqrt(2)),
        node("neg", either(node("div", _X, math.sqrt(2)), node("mul", _X, math.sqrt(0.5)))),
    ),
)
_GELU_ERF = either(
    multiplied(_X, 0.5, node("add", _ERF, 1)),
    multiplied(_X, 0.5, node("sub", 1, _MINUS_ERF)),
    node("div", node("mul", _X, node("add", _ERF, 1)), 2),
    node("mul", node("div", _X, 2), node("add", _ERF, 1)),
)

_CUBIC = 0.044715
_SCALED_CUBE = either(node("mul", _CUBE, _CUBIC), multiplied(_SQUARE, _X, _CUBIC))
_SCALED_SQUARE = either(node("mul", _SQUARE, _CUBIC), multiplied(_X, _X, _CUBIC))
_TWICE = node("mul", node("add", _X, _SCALED_CUBE), 2 * math.sqrt(2 / math.pi))
_BELL = node(
    "tanh",
    either(
        node("mul", node("add", _X, _SCALED_CUBE), math.sqrt(2 / math.pi)),
        multiplied(_X, math.sqrt(2 / math.pi), node("add", _SCALED_SQUARE, 1)),
    ),
)
_GELU_TANH = either(
    multiplied(_X, 0.5, node("add", _BELL, 1)),
    node("div", node("mul", _X, node("add", _BELL, 1)), 2),
    node("mul", node("div", _X, 2), node("add", _BELL, 1)),
    node("div", _X, node("add", node("exp", node("neg", _TWICE)), 1)),
)

_TO_SIGMOID = recipe(_SIGMOID, make_instead("sigmoid"))
_TO_SILU = recipe(_SILU, make_instead("silu"))


def _hard(op_name: str, **attrs: float) -> Build:
    """Builds the op where what was added to a sixth is its rounding error."""
    made = make_instead(op_name, **attrs)

    def build(graph: Graph, op: Op, found: Match) -> GraphTensor | None:
        return made(graph, op, found) if abs(found.get("rest", 0)) < 1e-7 else None

    return build


def _of_any_slope(graph: Graph, op: Op, found: Match) -> GraphTensor | None:
    """hard_sigmoid as frameworks other than PyTorch have it, such as 0.2 x + 0.5."""
    if not op.outputs[0].details.dtype.is_float:
        return None
    attrs = {key: found[key] for key in ("alpha", "beta")}
    return make_instead("hard_sigmoid", **attrs)(graph, op, found)


_TO_ANY_HARD_SIGMOID = recipe(_CUT_LINE, _of_any_slope)
_TO_HARD_SIGMOID = recipe(_HARD_SIGMOID, _hard("hard_sigmoid", alpha=1 / 6, beta=0.5))
_TO_HARD_SWISH = recipe(_HARD_SWISH, _hard("hard_swish"))
_TO_GELU = (
    recipe(_GELU_ERF, make_instead("gelu", approximate="none")),
    recipe(_GELU_TANH, make_instead("gelu", approximate="tanh")),
)
_TO_SOFTPLUS = recipe(_SOFTPLUS, make_instead("softplus"))

RULES: dict[str, tuple[Rule, ...]] = {
    "reciprocal": (_TO_SIGMOID,),
    "log": (_TO_SOFTPLUS,),
    "log1p": (_TO_SOFTPLUS,),
    "relu": (_TO_HARD_SIGMOID, _TO_ANY_HARD_SIGMOID),
    **dict.fromkeys(("min", "max", "clamp"), (_TO_ANY_HARD_SIGMOID,)),
    "mul": (
        *_TO_GELU,
        _TO_SILU,
        _TO_HARD_SWISH,
        _TO_HARD_SIGMOID,
        recipe(_MISH, make_instead("mish")),
    ),
    "div": (
        *_TO_GELU,
        _TO_SILU,
        _TO_SIGMOID,
        _TO_HARD_SWISH,
        _TO_HARD_SIGMOID,
        recipe(_SOFTSIGN, make_instead("softsign")),
    ),
}
