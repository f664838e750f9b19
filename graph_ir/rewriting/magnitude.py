"""The largest absolute value that a tensor can have, by what it is computed from."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..ir.graph import GraphTensor, Op
from .values import constant_value

DEPTH = 12
"""Ops in a row that are looked at."""

ROUNDED = 1 + 2.0**-20
"""Factor that exceeds the rounding of any operation below."""

Rule = Callable[[Op, list[float]], float]


def largest(tensor: GraphTensor, depth: int = DEPTH) -> float:
    """A bound of |x| for all elements, none of which is NaN then; infinite where none is known."""
    op, dtype = tensor.producer_owner, tensor.details.dtype
    if not dtype.is_float:
        return float(max(map(abs, dtype.limits))) if dtype.kind in ("int", "uint") else math.inf
    value = constant_value(tensor)
    if value is not None:
        with np.errstate(all="ignore"):
            most = float(np.abs(value.astype(np.float64)).max(initial=0))
        return most if math.isfinite(most) else math.inf
    if op.op_name not in _RULES or not depth:
        return math.inf
    found = _RULES[op.op_name](op, [largest(x, depth - 1) for x in op.inputs])
    return found * ROUNDED if found < 2.0**100 else math.inf


def _square(op: Op, bounds: list[float]) -> float:
    return math.inf if math.inf in bounds else math.prod(bounds)


def _whole(op: Op, bounds: list[float]) -> float:
    """Return the bound of a number that is bounded by itself, regardless of its operands."""
    return float(max(abs(op.attr("low")), abs(op.attr("high"))))


def _contraction_bound(op: Op, bounds: list[float]) -> float:
    """Return the bound of a convolution with constant weights: the largest sum of them for one result."""
    x, weights = op.inputs[0].details.dtype, constant_value(op.inputs[1])
    if x.is_float or weights is None or weights.ndim != op.inputs[1].details.rank:
        return math.inf
    largest_sum = np.abs(weights.astype(np.float64)).sum(axis=tuple(range(1, weights.ndim)))
    return float(largest_sum.max(initial=0)) * bounds[0]


_RULES: dict[str, Rule] = {
    "depthwise_convolution": _contraction_bound,
    "cast": lambda op, bounds: bounds[0],
    "add": lambda op, bounds: sum(bounds),
    "sub": lambda op, bounds: sum(bounds),
    "mul": _square,
    "div_constant": lambda op, bounds: bounds[0] / abs(op.attr("divisor")),
    "relu": lambda op, bounds: bounds[0],
    "neg": lambda op, bounds: bounds[0],
    "reshape": lambda op, bounds: bounds[0],
    "transpose": lambda op, bounds: bounds[0],
    "round_saturate": _whole,
    "scaled_sum": lambda op, bounds: bounds[0] * abs(op.attr("a")) + bounds[1] * abs(op.attr("b")),
}
