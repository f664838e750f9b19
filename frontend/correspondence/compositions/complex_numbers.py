"""Complex numbers, as two real tensors: formulas on their parts, for every format that has them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....base.records import dataclass
from ....graph_ir.ir.graph import GraphTensor
from ...op_builder import OpBuilder

Number = tuple[GraphTensor, GraphTensor]
"""Real and imaginary part."""


@dataclass(frozen=True)
class Complex:
    """An array of complex numbers, as the value of an instruction or operator."""

    real: GraphTensor
    imag: GraphTensor


def zeros(build: OpBuilder, like: GraphTensor) -> GraphTensor:
    """The imaginary part of a real tensor."""
    return _repeated(build, build.constant(0, like.details.dtype), like.details.plain_dims)


def _repeated(build: OpBuilder, x: GraphTensor, dims: Sequence[int]) -> GraphTensor:
    return x if x.details.plain_dims == tuple(dims) else build.helper("broadcast", x, shape=dims)


def times(build: OpBuilder, x: Number, y: Number) -> Number:
    """Multiply two complex numbers."""
    (a, b), (c, d) = x, y
    real = build.helper("sub", build.helper("mul", a, c), build.helper("mul", b, d))
    return real, build.helper("add", build.helper("mul", a, d), build.helper("mul", b, c))


def over(build: OpBuilder, x: Number, y: Number) -> Number:
    """Divided by a number that is scaled first, so that its square does not overflow."""
    (a, b), (c, d) = x, y
    most = build.helper("max", build.helper("abs", c), build.helper("abs", d))
    c_part, d_part = build.helper("div", c, most), build.helper("div", d, most)
    square = build.helper("add", build.helper("mul", c, c_part), build.helper("mul", d, d_part))
    real = build.helper("add", build.helper("mul", a, c_part), build.helper("mul", b, d_part))
    imag = build.helper("sub", build.helper("mul", b, c_part), build.helper("mul", a, d_part))
    return build.helper("div", real, square), build.helper("div", imag, square)


def magnitude(build: OpBuilder, x: Number) -> GraphTensor:
    """|x|, without overflow."""
    a, b = (build.helper("abs", part) for part in x)
    high, low = build.helper("max", a, b), build.helper("min", a, b)
    ratio = build.helper("div", low, _unless_zero(build, high))
    one = build.constant(1, a.details.dtype)
    root = build.helper("sqrt", build.helper("add", build.helper("mul", ratio, ratio), one))
    is_infinite = build.helper("eq", high, build.constant(math.inf, a.details.dtype))
    return build.helper("select", is_infinite, high, build.helper("mul", high, root))


def _unless_zero(build: OpBuilder, x: GraphTensor) -> GraphTensor:
    is_zero = build.helper("eq", x, build.constant(0, x.details.dtype))
    return build.helper("select", is_zero, build.constant(1, x.details.dtype), x)


def exp(build: OpBuilder, x: Number) -> Number:
    """e to the power of a number."""
    size = build.helper("exp", x[0])
    cosine, sine = build.helper("cos", x[1]), build.helper("sin", x[1])
    return build.helper("mul", size, cosine), build.helper("mul", size, sine)


def log(build: OpBuilder, x: Number) -> Number:
    """The logarithm whose imaginary part lies from -pi to pi."""
    return build.helper("log", magnitude(build, x)), build.helper("atan2", x[1], x[0])


def sqrt(build: OpBuilder, x: Number) -> Number:
    """The root with a real part of 0 or more."""
    a, b = x
    dtype = a.details.dtype
    half, zero = build.constant(0.5, dtype), build.constant(0, dtype)
    total = build.helper("add", magnitude(build, x), build.helper("abs", a))
    root = build.helper("sqrt", build.helper("mul", total, half))
    other = build.helper(
        "div", build.helper("mul", build.helper("abs", b), half), _unless_zero(build, root)
    )
    is_right, is_below = build.helper("ge", a, zero), build.helper("lt", b, zero)
    real, imag = (
        build.helper("select", is_right, *pair) for pair in ((root, other), (other, root))
    )
    return real, build.helper("select", is_below, build.helper("neg", imag), imag)


def power(build: OpBuilder, x: Number, y: Number) -> Number:
    """exp(y log x), and 0 for x = 0 except for y = 0."""
    value = exp(build, times(build, y, log(build, x)))
    dtype = x[0].details.dtype
    zero, one = build.constant(0, dtype), build.constant(1, dtype)
    is_zero, is_unit = (
        build.helper("and", *(build.helper("eq", part, zero) for part in number))
        for number in (x, y)
    )
    real = build.helper("select", is_zero, zero, value[0])
    imag = build.helper("select", build.helper("or", is_zero, is_unit), zero, value[1])
    return build.helper("select", is_unit, one, real), imag


def plus(build: OpBuilder, x: Number, number: float) -> Number:
    """A real number added."""
    return build.helper("add", x[0], build.constant(number, x[0].details.dtype)), x[1]


def one(build: OpBuilder, x: Number) -> Number:
    """1, as large as a number."""
    one = build.constant(1, x[0].details.dtype)
    return _repeated(build, one, x[0].details.plain_dims), zeros(build, x[0])


def sine(build: OpBuilder, x: Number) -> Number:
    """sin."""
    a, b = x
    real = build.helper("mul", build.helper("sin", a), build.helper("cosh", b))
    return real, build.helper("mul", build.helper("cos", a), build.helper("sinh", b))


def cosine(build: OpBuilder, x: Number) -> Number:
    """cos."""
    a, b = x
    real = build.helper("mul", build.helper("cos", a), build.helper("cosh", b))
    imag = build.helper("mul", build.helper("sin", a), build.helper("sinh", b))
    return real, build.helper("neg", imag)


def tanh(build: OpBuilder, x: Number) -> Number:
    """(t + i u) / (1 + i t u) for t = tanh a, u = tan b."""
    t, u = build.helper("tanh", x[0]), build.helper("tan", x[1])
    one = _repeated(build, build.constant(1, t.details.dtype), t.details.plain_dims)
    return over(build, (t, u), (one, build.helper("mul", t, u)))


def tan(build: OpBuilder, x: Number) -> Number:
    """-i tanh(i x)."""
    real, imag = tanh(build, (build.helper("neg", x[1]), x[0]))
    return imag, build.helper("neg", real)


def logistic(build: OpBuilder, x: Number) -> Number:
    """1 / (1 + exp(-x))."""
    negative = (build.helper("neg", x[0]), build.helper("neg", x[1]))
    return over(build, one(build, x), plus(build, exp(build, negative), 1))


def sign(build: OpBuilder, x: Number) -> Number:
    """The number of size 1 in the same direction; 0 for 0."""
    size = _unless_zero(build, magnitude(build, x))
    return build.helper("div", x[0], size), build.helper("div", x[1], size)
