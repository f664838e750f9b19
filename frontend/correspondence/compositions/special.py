"""Special functions that are computed in f64 from others, and rounded once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....base.dtypes import F32, F64, S16, S32, S64
from ....graph_ir.ir.graph import Graph
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like
from .arithmetic import erfc
from .control import while_loop

_FROM = 10
"""Minimum argument for which the asymptotic series of digamma is exact to f64; smaller ones are raised by steps
of 1."""

_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
"""B(2k) / 2k, by which digamma falls short of log x - 1 / 2x in powers of 1 / x^2."""


def polynomial(node: OpBuilder, x: Tensor, factors: tuple[float, ...]) -> Tensor:
    """Factors of the powers of x from 0 on, by Horner's scheme."""
    total = like(node, factors[-1], x)
    for factor in factors[-2::-1]:
        total = node.helper("add", node.helper("mul", total, x), like(node, factor, x))
    return total


def digamma(node: OpBuilder, x: Tensor) -> Tensor:
    """The derivative of log gamma(x), by reflection below 0; -inf at 0, NaN at negative integers, as in PyTorch."""
    wide = node.converted(x, F64)
    zero, one = like(node, 0, wide), like(node, 1, wide)
    is_low = node.helper("lt", wide, zero)
    argument = node.helper("select", is_low, node.helper("sub", one, wide), wide)
    right = _of_positive(node, argument)
    turn = node.helper("sub", wide, node.helper("round", wide))
    slope = node.helper("tan", node.helper("mul", turn, like(node, math.pi, wide)))
    left = node.helper("sub", right, node.helper("div", like(node, math.pi, wide), slope))
    whole = node.helper("and", is_low, node.helper("eq", turn, zero))
    value = node.helper("select", is_low, left, right)
    value = node.helper("select", whole, like(node, math.nan, wide), value)
    pole = node.helper("neg", node.helper("div", one, wide))  # -inf at 0, inf at -0.0
    at_zero = node.helper("eq", wide, zero)
    return node.converted(node.helper("select", at_zero, pole, value), x.details.dtype)


def _of_positive(node: OpBuilder, x: Tensor) -> Tensor:
    less, one = like(node, 0, x), like(node, 1, x)
    for _ in range(_FROM):
        is_small = node.helper("lt", x, like(node, _FROM, x))
        step = node.helper("select", is_small, node.helper("div", one, x), like(node, 0, x))
        less = node.helper("add", less, step)
        x = node.helper("select", is_small, node.helper("add", x, one), x)
    reciprocal = node.helper("div", one, x)
    square = node.helper("square", reciprocal)
    tail = node.helper("mul", square, polynomial(node, square, _BERNOULLI))
    tail = node.helper("add", tail, node.helper("mul", reciprocal, like(node, 0.5, x)))
    return node.helper("sub", node.helper("sub", node.helper("log", x), tail), less)


_CENTER = (
    0.0000000281022636, 0.000000343273939, -0.0000035233877, -0.00000439150654, 0.00021858087, -0.00125372503,
    -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip
"""Giles' polynomials for erfinv(x) / x, in w - 2.5 and sqrt(w) - 3 of w = -log(1 - x^2)."""


def inverse_erf(node: OpBuilder, x: Tensor) -> Tensor:
    """The inverse of erf in ]-1, 1[: Giles' approximation of f32, and two steps of Halley's method in f64."""
    wide = node.converted(x, F64)
    one, zero = like(node, 1, wide), like(node, 0, wide)
    inside = node.helper("lt", node.helper("abs", wide), one)
    argument = node.helper("select", inside, wide, zero)
    w = node.helper(
        "neg", node.helper("log1p", node.helper("neg", node.helper("square", argument)))
    )
    near = polynomial(node, node.helper("sub", w, like(node, 2.5, wide)), _CENTER[::-1])
    root = node.helper("sub", node.helper("sqrt", w), like(node, 3, wide))
    is_near = node.helper("lt", w, like(node, 5, wide))
    y = node.helper("select", is_near, near, polynomial(node, root, _TAIL[::-1]))
    y = node.helper("mul", y, argument)
    for _ in range(2):
        y = _nearer(node, y, argument)
    endless = node.helper("div", wide, zero)  # of 1 and -1
    at_end = node.helper("eq", node.helper("abs", wide), one)
    outside = node.helper("select", at_end, endless, like(node, math.nan, wide))
    return node.converted(node.helper("select", inside, y, outside), x.details.dtype)


def _nearer(node: OpBuilder, y: Tensor, x: Tensor) -> Tensor:
    """y - e / (1 + y e), e the miss of erf(y) over the slope of erf there."""
    miss = node.helper("sub", node.helper("erf", y), x)
    rise = node.helper("exp", node.helper("square", y))
    away = node.helper("mul", miss, node.helper("mul", rise, like(node, math.sqrt(math.pi) / 2, y)))
    bent = node.helper("add", like(node, 1, y), node.helper("mul", y, away))
    return node.helper("sub", y, node.helper("div", away, bent))


_SERIES = tuple(1 / math.factorial(k) ** 2 for k in range(36))
"""Coefficients of I0 in powers of x^2 / 4, below 15."""

_FAR = tuple(
    math.prod((2 * j - 1) ** 2 for j in range(1, k + 1)) / (math.factorial(k) * 8**k)
    for k in range(20)
)
"""Coefficients of I0 sqrt(2 pi x) / exp(x) in powers of 1 / x, above."""


def bessel_i0(node: OpBuilder, x: Tensor) -> Tensor:
    """The modified Bessel function of order 0."""
    wide = node.helper("abs", node.converted(x, F64))
    is_near = node.helper("lt", wide, like(node, 15, wide))
    quarter = node.helper("mul", node.helper("square", wide), like(node, 0.25, wide))
    near = polynomial(node, quarter, _SERIES)
    far = polynomial(node, node.helper("div", like(node, 1, wide), wide), _FAR)
    root = node.helper("sqrt", node.helper("mul", like(node, math.tau, wide), wide))
    rise = node.helper("exp", wide)
    grown = node.helper("mul", node.helper("div", far, root), rise)
    grown = node.helper("select", node.helper("isinf", rise), rise, grown)
    return node.converted(node.helper("select", is_near, near, grown), x.details.dtype)


def normal_distribution(node: OpBuilder, x: Tensor) -> Tensor:
    """The cumulative distribution function of the standard normal distribution."""
    wide = node.converted(x, F64)
    above = erfc(node, node.helper("mul", wide, like(node, -math.sqrt(0.5), wide)))
    half = node.helper("mul", above, like(node, 0.5, wide))
    return node.converted(half, x.details.dtype)


def xlogy(node: OpBuilder, a: Tensor, b: Tensor) -> Tensor:
    """A * log(b), 0 where a is 0, unless b is NaN."""
    zero = like(node, 0, a)
    value = node.helper("mul", a, node.helper("log", b))
    other = node.helper("select", node.helper("isnan", b), b, zero)
    return node.make("select", node.helper("eq", a, zero), other, value)


def fraction_and_exponent(node: OpBuilder, x: Tensor) -> tuple[Tensor, Tensor]:
    """(f, e s32) with x = f * 2 ** e and 0.5 <= |f| < 1; f is x and e is 0 where x is 0, infinite or NaN."""
    dtype = x.details.dtype
    wide = node.converted(x, F64 if dtype == F64 else F32)
    facts, bits = np.finfo(wide.details.dtype.numpy), S64 if dtype == F64 else S32
    size = node.helper("abs", wide)
    is_small = node.helper("lt", size, like(node, facts.smallest_normal, wide))
    raised = node.helper("mul", wide, like(node, 2.0**facts.nmant, wide))
    pattern = node.helper("bitcast", node.helper("select", is_small, raised, wide), dtype=bits.name)
    mask = ((1 << facts.nexp) - 1) << facts.nmant
    exponent = node.helper(
        "shr",
        node.helper("and", pattern, like(node, mask, pattern)),
        like(node, facts.nmant, pattern),
    )
    less = (like(node, n, pattern) for n in (facts.nmant - facts.minexp, -facts.minexp))
    exponent = node.helper("sub", exponent, node.helper("select", is_small, *less))
    kept = node.helper("and", pattern, like(node, ~mask, pattern))
    half = node.helper("bitcast", node.constant(0.5, wide.details.dtype), dtype=bits.name)
    fraction = node.helper("bitcast", node.helper("or", kept, half), dtype=wide.details.dtype.name)
    is_plain = node.helper("lt", size, like(node, math.inf, wide))
    is_plain = node.helper("and", is_plain, node.helper("gt", size, like(node, 0, wide)))
    fraction = node.converted(node.helper("select", is_plain, fraction, wide), dtype)
    return fraction, node.converted(
        node.helper("select", is_plain, exponent, like(node, 0, exponent)), S32
    )


def common_divisor(node: OpBuilder, x: Tensor, y: Tensor, is_multiple: bool = False) -> Tensor:
    """The greatest common divisor by Euclid's algorithm, for all elements until none has a remainder.

    `is_multiple`: the least common multiple by it.
    """
    pairs = ((x, y), (y, x))  # each made as wide as both by zeros of the other
    a, b = (node.helper("add", node.helper("abs", z), node.helper("sub", o, o)) for z, o in pairs)
    axes = tuple(range(a.details.rank))

    def goes_on(graph: Graph, own: list[Tensor], _: list[Tensor]) -> Tensor:
        build = OpBuilder(graph, node.type, node.name)
        left = build.helper("ne", own[1], like(build, 0, own[1]))
        return build.helper("reduce_any", left, axes=axes, keep_dims=False)

    def once(graph: Graph, _: Any, own: list[Tensor], __: Any) -> list[Tensor]:
        build = OpBuilder(graph, node.type, node.name)
        is_done = build.helper("eq", own[1], like(build, 0, own[1]))
        rest = build.helper("select", is_done, own[1], build.helper("mod", *own))
        return [build.helper("select", is_done, *own), rest]

    (found, _) = while_loop(node, [a, b], [], goes_on, once)
    return node.make("mul", node.helper("div", a, found), b) if is_multiple else found


def next_number(node: OpBuilder, x: Tensor, y: Tensor) -> Tensor:
    """The bits of x more or less by one, toward y; next to 0 is the smallest number of y's sign."""
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
