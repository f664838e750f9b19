"""The logarithm of the gamma function."""

from __future__ import annotations

import math

from ....base.dtypes import F64
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like

_G = 7
"""Lanczos' free parameter, and the terms of his sum for it."""

_TERMS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip


def lgamma(node: OpBuilder, x: Tensor) -> Tensor:
    """log |gamma(x)|, computed in f64: the terms of the sum cancel out near 1 and 2, where it is 0.

    Below 1/2 by reflection; inf for 0 and negative integers.
    """
    wide = node.converted(x, F64)
    half, one = like(node, 0.5, wide), like(node, 1, wide)
    is_low = node.helper("lt", wide, half)
    argument = node.helper("select", is_low, node.helper("sub", one, wide), wide)
    right = _of_right_half(node, argument)
    turn = node.helper("sub", wide, node.helper("floor", wide))
    sine = node.helper("sin", node.helper("mul", turn, like(node, math.pi, wide)))
    size = node.helper("log", node.helper("abs", sine))
    left = node.helper("sub", node.helper("sub", like(node, math.log(math.pi), wide), size), right)
    value = node.helper("select", is_low, left, right)
    endless = node.helper("isinf", wide)
    whole = node.helper("select", endless, like(node, math.inf, wide), value)
    return node.converted(whole, x.details.dtype)


def _of_right_half(node: OpBuilder, x: Tensor) -> Tensor:
    """Log-gamma for x >= 1/2: log(sqrt(2 pi)) + (x - 1/2) log t - t + log(sum), t = x + 13/2."""
    total = like(node, _TERMS[0], x)
    for i, term in enumerate(_TERMS[1:]):
        below = node.helper("add", x, like(node, i, x)) if i else x
        total = node.helper("add", total, node.helper("div", like(node, term, x), below))
    t = node.helper("add", x, like(node, _G - 0.5, x))
    power = node.helper("mul", node.helper("sub", x, like(node, 0.5, x)), node.helper("log", t))
    rest = node.helper("add", node.helper("log", total), like(node, math.log(math.tau) / 2, x))
    return node.helper("add", node.helper("sub", power, t), rest)
