"""Arithmetic of one or two tensors and numbers."""

from __future__ import annotations

import math

import numpy as np

from ....base.dims import Size
from ....base.dtypes import F32, F64, S64, DType
from ....base.size_limits import broadcast_sizes
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like
from .contraction import scaled
from .movement import broadcast_to
from .reduction import LARGEST, lp_norm


def mean(node: OpBuilder, *operands: Tensor) -> Tensor:
    """The mean of the operands, element by element."""
    total, *others = operands
    for x in others:
        total = node.helper("add", total, x)
    return node.make("div", total, like(node, len(operands), total))


def squared_difference(node: OpBuilder, a: Tensor, b: Tensor) -> Tensor:
    """(a - b) ** 2."""
    return node.make("square", node.helper("sub", a, b))


def erfc(node: OpBuilder, x: Tensor) -> Tensor:
    """1 - erf(x), as 2 gelu(u) / u of u = -x sqrt(2) in f64: where erf is near 1, nothing of the difference is left."""
    wide, end = node.converted(x, F64), node.constant(30, F64)  # from where on it is 2 or 0
    wide = node.helper("min", node.helper("max", wide, node.helper("neg", end)), end)
    u = node.helper("mul", wide, like(node, -math.sqrt(2), wide))
    value = node.helper("div", node.helper("mul", node.helper("gelu", u), like(node, 2, u)), u)
    value = node.helper("select", node.helper("eq", u, like(node, 0, u)), like(node, 1, u), value)
    return node.converted(value, x.details.dtype)


def div_no_nan(node: OpBuilder, a: Tensor, b: Tensor) -> Tensor:
    """A / b, 0 where b is 0."""
    return _guarded(node, b, node.helper("div", a, b))


def xdivy(node: OpBuilder, a: Tensor, b: Tensor) -> Tensor:
    """A / b, 0 where a is 0."""
    return _guarded(node, a, node.helper("div", a, b))


def xlogy(node: OpBuilder, a: Tensor, b: Tensor) -> Tensor:
    """A * log(b), 0 where a is 0, even if b is NaN (TensorFlow's)."""
    return _guarded(node, a, node.helper("mul", a, node.helper("log", b)))


def _guarded(node: OpBuilder, guard: Tensor, value: Tensor) -> Tensor:
    zero = like(node, 0, value)
    return node.make("select", node.helper("eq", guard, zero), zero, value)


def axpy(node: OpBuilder, a: Tensor, b: Tensor, alpha: float) -> Tensor:
    """A + alpha * b."""
    return node.make("add", a, node.helper("mul", b, like(node, alpha, b)))


def add_number(node: OpBuilder, x: Tensor, value: float) -> Tensor:
    """X + value."""
    return node.make("add", x, like(node, value, x))


def mul_number(node: OpBuilder, x: Tensor, value: float) -> Tensor:
    """X * value."""
    return node.make("mul", x, like(node, value, x))


def is_finite(node: OpBuilder, x: Tensor) -> Tensor:
    """Return whether x is neither NaN nor an infinity."""
    return node.make("lt", node.helper("abs", x), like(node, math.inf, x))


def round_half_away(node: OpBuilder, x: Tensor) -> Tensor:
    """X as an integer; halves are rounded away from 0."""
    wide = node.converted(x, x.details.dtype.accumulator)
    whole = node.helper("trunc", wide)
    rest = node.helper("abs", node.helper("sub", wide, whole))
    up = node.helper("ge", rest, like(node, 0.5, wide))
    one = node.helper("select", up, node.helper("sign", wide), like(node, 0, wide))
    return node.converted(node.helper("add", whole, one), x.details.dtype)


def cube_root(node: OpBuilder, x: Tensor) -> Tensor:
    """The real cube root; 1/3 is in the accumulator dtype, because small floats cannot represent it well enough."""
    wide = node.converted(x, x.details.dtype.accumulator)
    root = node.helper("pow", node.helper("abs", wide), like(node, 1 / 3, wide))
    return node.converted(node.helper("mul", node.helper("sign", wide), root), x.details.dtype)


def zeros_like(node: OpBuilder, x: Tensor) -> Tensor:
    """Zeros of the shape and type of x."""
    return node.make("broadcast", like(node, 0, x), shape=x.details.plain_dims)


def ones_like(node: OpBuilder, x: Tensor) -> Tensor:
    """Ones of the shape and type of x."""
    return node.make("broadcast", like(node, 1, x), shape=x.details.plain_dims)


def cast_like(node: OpBuilder, x: Tensor, target: Tensor) -> Tensor:
    """X in the type of another tensor."""
    return node.make("cast", x, dtype=target.details.dtype.name)


def add_scaled(
    node: OpBuilder, x: Tensor, a: Tensor, b: Tensor, value: float = 1, divides: bool = False
) -> Tensor:
    """X + value * a * b, or value * a / b."""
    term = node.helper("div" if divides else "mul", a, b)
    return node.make("add", x, scaled(node, term, value))


def lerp(node: OpBuilder, start: Tensor, end: Tensor, weight: Tensor) -> Tensor:
    """Start + weight * (end - start)."""
    return node.make("add", start, node.helper("mul", node.helper("sub", end, start), weight))


def reversed_sub(node: OpBuilder, x: Tensor, other: Tensor, alpha: float = 1) -> Tensor:
    """Other - alpha * x."""
    return node.make("sub", other, scaled(node, x, alpha))


def hypot(node: OpBuilder, x: Tensor, y: Tensor) -> Tensor:
    """sqrt(x^2 + y^2), scaled by the larger operand so that squares do not overflow; infinite even beside NaN."""
    x, y = node.helper("abs", x), node.helper("abs", y)
    large, small = node.helper("max", x, y), node.helper("min", x, y)
    ratio = node.helper("square", node.helper("div", small, large))
    root = node.helper("sqrt", node.helper("add", like(node, 1, x), ratio))
    plain = node.helper("eq", small, like(node, 0, x))  # 0 / 0 is not a number
    length = node.helper("select", plain, large, node.helper("mul", large, root))
    infinite = node.helper("or", node.helper("isinf", x), node.helper("isinf", y))
    return node.make("select", infinite, like(node, math.inf, x), length)


def exp2(node: OpBuilder, x: Tensor) -> Tensor:
    """2 ** x."""
    return node.make("pow", like(node, 2, x), x)


def nan_to_num(
    node: OpBuilder,
    x: Tensor,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """X with NaN and infinities replaced, by default with 0 and the largest numbers; integers as they are."""
    if not x.details.dtype.is_float:
        return x
    most = LARGEST[x.details.dtype.name]
    high = like(node, most if posinf is None else posinf, x)
    low = like(node, -most if neginf is None else neginf, x)
    replaced = node.helper("select", node.helper("gt", x, like(node, 0, x)), high, low)
    kept = node.helper("select", node.helper("isinf", x), replaced, x)
    return node.make("select", node.helper("isnan", x), like(node, nan, x), kept)


def cross(node: OpBuilder, x: Tensor, y: Tensor, axis: int = -1) -> Tensor:
    """The cross product along an axis of three: each element is a1 * b2 - a2 * b1 of the two other axes."""
    at = node.axis(axis, x.details.rank)
    ranks, sizes = zip(*((z.details.rank, z.details.plain_dims) for z in (x, y)), strict=True)
    if len(set(ranks)) > 1 or any(dims[at] != 3 for dims in sizes):
        raise node.rule("both inputs must have 3 elements on dim", f"{x.details} and {y.details}")

    def rotated(z: Tensor, by: int) -> Tensor:
        return node.helper("gather", z, node.constant((np.arange(3) + by) % 3, S64), axis=at)

    first, second = (node.helper("mul", rotated(x, 1 + i), rotated(y, 2 - i)) for i in (0, 1))
    return node.make("sub", first, second)


def cross_of_first(node: OpBuilder, x: Tensor, y: Tensor, axis: int | None = None) -> Tensor:
    """The cross product along an axis, by default the first of three elements (torch.cross)."""
    if axis is None:
        threes = [i for i, n in enumerate(x.details.plain_dims) if n == 3]
        if not threes:
            raise node.rule("an axis of the first input must have 3 elements", str(x.details))
        axis = threes[0]
    return cross(node, x, y, axis)


def cosine_similarity(
    node: OpBuilder, x: Tensor, y: Tensor, at: int = 1, eps: float = 1e-8
) -> Tensor:
    """X . y / (max(|x|, eps) * max(|y|, eps)) along axis `at`."""
    axis = node.axis(at, max(x.details.rank, y.details.rank))
    try:
        dims = broadcast_sizes(x.details.plain_dims, y.details.plain_dims)
    except ValueError as error:
        raise node.rule("inputs must broadcast", f"{x.details} and {y.details}") from error
    units = []
    for z in (x, y):
        wide = broadcast_to(node, z, dims)
        norm = node.helper("reduce_l2", wide, axes=(axis,), keep_dims=True)
        units.append(node.helper("div", wide, node.helper("clamp", norm, min=eps, max=None)))
    term = node.helper("mul", *units)
    return node.make("reduce_sum", term, axes=(axis,), keep_dims=False)


def distances(node: OpBuilder, x: Tensor, y: Tensor, p: float = 2.0) -> Tensor:
    """|x_i - y_j| of all rows of two matrices, in the p-norm."""
    if min(x.details.rank, y.details.rank) < 2:
        raise node.rule("inputs must be matrices", f"{x.details} and {y.details}")
    *outer, rows, width = x.details.plain_dims
    *others, columns, _ = y.details.plain_dims
    x = node.reshaped(x, (*outer, rows, 1, width))
    gap = node.helper("sub", x, node.reshaped(y, (*others, 1, columns, width)))
    return lp_norm(node, gap, p, (gap.details.rank - 1,), False)


def pair_distances(node: OpBuilder, x: Tensor, p: float = 2.0) -> Tensor:
    """|x_i - x_j| of all rows, each pair once, in the p-norm."""
    count = x.details.plain_dims[0]
    node.check_array((count, count))
    pairs = (node.constant(i, S64) for i in np.triu_indices(count, 1))
    first, second = (node.helper("gather", x, at, axis=0) for at in pairs)
    return lp_norm(node, node.helper("sub", first, second), p, (1,), False)


def filled(
    node: OpBuilder, shape: tuple[Size, ...], value: float = 0.0, dtype: DType | None = None
) -> Tensor:
    """A new tensor, f32 unless it has another type: a broadcast scalar, so that nothing large is stored."""
    if any(size < 0 for size in shape):
        raise node.rule("sizes must not be negative", str(list(shape)))
    return node.make("broadcast", node.constant(value, dtype or F32), shape=shape)


def filled_as(
    node: OpBuilder,
    x: Tensor,
    shape: tuple[int, ...],
    value: float = 0.0,
    dtype: DType | None = None,
) -> Tensor:
    """A new tensor of the type of x unless it has another."""
    return filled(node, shape, value, dtype or x.details.dtype)


def filled_like(
    node: OpBuilder, x: Tensor, value: float = 0.0, dtype: DType | None = None
) -> Tensor:
    """A new tensor of the shape of x, and of its type unless it has another."""
    return filled_as(node, x, x.details.plain_dims, value, dtype)


def pairwise_distance(
    node: OpBuilder,
    x: Tensor,
    y: Tensor,
    p: float = 2.0,
    eps: float = 1e-6,
    keep_dims: bool = False,
) -> Tensor:
    """The p-norm of x - y + eps along the last axis."""
    gap = node.helper("sub", x, y)
    if not gap.details.rank:
        raise node.rule("the inputs must have an axis", f"{x.details} and {y.details}")
    away = node.helper("add", gap, like(node, eps, gap))
    return lp_norm(node, away, p, (gap.details.rank - 1,), keep_dims)


def log_add_exp(node: OpBuilder, x: Tensor, y: Tensor, base: float = math.e) -> Tensor:
    """The logarithm of base^x + base^y; two equal infinities add up to themselves."""
    gap = node.helper("abs", node.helper("sub", x, y))
    if base != math.e:
        gap = node.helper("mul", gap, like(node, math.log(base), gap))
    tail = node.helper("log1p", node.helper("exp", node.helper("neg", gap)))
    if base != math.e:
        tail = node.helper("div", tail, like(node, math.log(base), tail))
    total = node.helper("add", node.helper("max", x, y), tail)
    # inf - inf is NaN.
    endless = node.helper("and", node.helper("isinf", x), node.helper("eq", x, y))
    return node.make("select", endless, x, total)


def scaled_by(node: OpBuilder, x: Tensor, factor: float) -> Tensor:
    """X * factor."""
    return node.make("mul", x, like(node, factor, x))


def fraction(node: OpBuilder, x: Tensor) -> Tensor:
    """The fractional part of x, with the sign of x."""
    return node.make("sub", x, node.helper("trunc", x))


def heaviside(node: OpBuilder, x: Tensor, at_zero: Tensor) -> Tensor:
    """0 below 0, 1 above, `at_zero` at 0; 0 for NaN."""
    zero, one = (like(node, value, x) for value in (0, 1))
    step = node.helper("select", node.helper("gt", x, zero), one, zero)
    return node.make("select", node.helper("eq", x, zero), at_zero, step)


def logit(node: OpBuilder, x: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)) of x, within [eps, 1 - eps] where given."""
    x = x if eps is None else node.helper("clamp", x, min=eps, max=1 - eps)
    return node.make("log", node.helper("div", x, node.helper("sub", like(node, 1, x), x)))


def sinc(node: OpBuilder, x: Tensor) -> Tensor:
    """sin(pi x) / (pi x), 1 at 0."""
    angle = scaled_by(node, x, math.pi)
    ratio = node.helper("div", node.helper("sin", angle), angle)
    return node.make("select", node.helper("eq", x, like(node, 0, x)), like(node, 1, x), ratio)
