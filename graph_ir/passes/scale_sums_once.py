"""Scale the terms of a sum of bytes to the result at once, where no pair of bytes shows the difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...base.dtypes import F32
from ..ir.graph import Array, Graph, GraphTensor
from ..ops.compose import Composer
from ..ops.contraction_types import is_byte
from ..ops.round_saturate import RoundSaturate, scaled_sum
from ..rewriting.rewrite import rewrite
from ..rewriting.values import uniform_value
from ..schedule.context import LowerContext

FARTHEST = 2
"""Units in the last place that a factor may be from the quotient of the scales."""

CLOSE = 2.0**-12
"""Quotients this far from the middle of two integers are on the same side of it however they are rounded: a byte
scaled to at most 2^10 is off by 2^-13 after five roundings."""


def scale_sums_once(graph: Graph, ctx: LowerContext) -> bool:
    """Divide the scales of two dequantized bytes by that of their sum, instead of the sum.

    %y = round_saturate(div_constant(add(mul(%p, 0.02), mul(%q, 0.03)), 0.05))      p, q bytes minus zero points, in f32
    ->
    %y = round_saturate(scaled_sum(%p, %q, a=0.4, b=0.6))

    Two instructions instead of five. The roundings differ, and the results might: all pairs of bytes whose quotients
    are close to the middle of two integers are computed both ways here, and where no factors next to the quotients
    give the same results, nothing is changed. Requires: constants folded, layouts chosen, topological order.
    Ensures: topological order.
    """
    if not ctx.target.table.has_fma:
        return False
    return rewrite(graph, {"round_saturate": (_at_once,)})


class _Term(NamedTuple):
    """`value`, integers from `low` to `high`, times `scale`."""

    value: GraphTensor
    low: int
    high: int
    scale: float

    @property
    def numbers(self) -> Array:
        return np.arange(self.low, self.high + 1).astype(F32.numpy)


def _at_once(graph: Graph, op: RoundSaturate) -> GraphTensor | None:
    quotient = op.x.producer_owner
    if quotient.op_name == "div_constant":
        divisor = float(quotient.attr("divisor"))
    elif quotient.op_name == "div" and (known := uniform_value(quotient.inputs[1])) is not None:
        divisor = float(known)
    else:
        return None
    total = quotient.inputs[0].producer_owner
    if total.op_name != "add" or not _is_alone(op.x) or not _is_alone(quotient.inputs[0]):
        return None
    terms = [term for x in total.inputs if (term := _term(x)) is not None]
    kinds = {x.details for x in (op.x, *total.inputs, *(x.value for x in terms))}
    if len(terms) != 2 or len(kinds) != 1 or not np.isfinite(divisor) or divisor <= 0:
        return None
    for x, y in (terms, terms[::-1]):
        factors = _factors(x, y, divisor, (op.low - op.zero, op.high - op.zero))
        if factors is not None:
            make = Composer(graph, op)
            once = make("scaled_sum", x.value, y.value, a=factors[0], b=factors[1])
            once.details = op.x.details
            rounded = make("round_saturate", once, **op.attrs)
            rounded.details = op.outputs[0].details
            return rounded
    return None


def _is_alone(tensor: GraphTensor) -> bool:
    return len(tensor.uses) == 1


def _term(tensor: GraphTensor) -> _Term | None:
    """A dequantized byte; None for anything else."""
    op = tensor.producer_owner
    if op.op_name != "mul" or (scale := uniform_value(op.inputs[1])) is None:
        return None
    value, zero, source = op.inputs[0], 0, op.inputs[0].producer_owner
    if source.op_name == "sub":
        known = uniform_value(source.inputs[1])
        if known is None or int(known) != known:
            return None
        zero, source = int(known), source.inputs[0].producer_owner
    if source.op_name != "cast" or value.details.dtype != F32 or not scale > 0:
        return None
    given = source.inputs[0].details.dtype
    if not is_byte(given):
        return None
    low, high = given.limits
    return _Term(value, low - zero, high - zero, float(scale))


def _factors(
    x: _Term, y: _Term, divisor: float, bounds: tuple[int, int]
) -> tuple[float, float] | None:
    """(a, b) such that x * a + y * b gives what the sum divided by `divisor` gives, for all values of both."""
    a, b = x.scale / divisor, y.scale / divisor
    reach = max(map(abs, (x.low, x.high, y.low, y.high)))
    if not 2.0**-10 <= min(a, b) <= max(a, b) <= 2.0**10 / reach:
        return None
    xs, ys = np.broadcast_arrays(x.numbers[:, None], y.numbers[None, :])
    near = x.numbers.astype(np.float64)[:, None] * a + y.numbers.astype(np.float64)[None, :] * b
    is_close = np.abs(near - np.floor(near) - 0.5) < CLOSE
    xs, ys = xs[is_close], ys[is_close]
    f32 = F32.numpy.type
    expected = np.rint((xs * f32(x.scale) + ys * f32(y.scale)) / f32(divisor)).clip(*bounds)
    for one, other in _around(a, b):
        if np.array_equal(np.rint(scaled_sum(xs, ys, one, other)).clip(*bounds), expected):
            return one, other
    return None


def _around(a: float, b: float) -> Iterator[tuple[float, float]]:
    """Pairs of f32 next to a and b, the nearest first."""
    steps = range(-FARTHEST, FARTHEST + 1)
    for i, j in sorted(((i, j) for i in steps for j in steps), key=lambda at: sum(map(abs, at))):
        yield _moved(a, i), _moved(b, j)


def _moved(value: float, steps: int) -> float:
    """Return the f32 that is `steps` ULP from the one nearest to `value`, which is above 0."""
    bits = np.float32(value).view(np.int32) + np.int32(steps)
    return float(bits.view(np.float32))
