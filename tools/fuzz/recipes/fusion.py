"""Patterns that compilers fuse and recognize: epilogues, attention, chains around convolutions,
decomposed activations."""

from __future__ import annotations

import math
from collections.abc import Callable

from ....base.dtypes import F32
from ....graph_ir.ir.graph import GraphTensor
from ..scope import Scope
from .contractions import multiply
from .movement import two_way
from .windows import convolve, image

FLOAT = ("float",)
_ACTIVATIONS = ("relu", "sigmoid", "tanh", "silu", "gelu", "abs", "neg", "hard_swish", "elu")


def follow(scope: Scope, x: GraphTensor, most: int = 3) -> GraphTensor:
    """Elementwise ops after x: biases, activations, residuals."""
    for _ in range(scope.random.randint(0, most)):
        dtype, dims = x.details.dtype, x.details.plain_dims
        kind = scope.random.randrange(4)
        if kind == 0 and dims:
            x = scope.one("add", x, scope.weight(dtype, dims[-1:]))
        elif kind == 1:
            x = scope.one(scope.random.choice(_ACTIVATIONS), x)
        elif kind == 2:
            x = scope.one(scope.random.choice(("add", "mul", "max")), x, scope.like(dtype, dims))
        else:
            x = scope.one("mul", x, scope.number(x, 0.5))
    return x


def matmul_epilogue(scope: Scope) -> None:
    """Matmuls one after the other, reshaped and transposed in between."""
    x = scope.any(FLOAT, 2, 4)
    for _ in range(scope.random.randint(1, 2)):
        x = two_way(scope, follow(scope, multiply(scope, x)))
        if x.details.rank < 2:
            return


def attention(scope: Scope) -> None:
    """softmax(q k^T * scale + mask) v, heads in front, sizes that are not multiples."""
    dtype = F32 if scope.chance(0.8) else scope.dtype(FLOAT)
    heads = tuple(scope.random.randint(1, 3) for _ in range(scope.random.randint(0, 2)))
    queries, keys, width, out = (max(scope.size(), 1) for _ in range(4))
    q = scope.like(dtype, (*heads, queries, width))
    k = scope.like(dtype, (*heads, keys, width))
    v = scope.like(dtype, (*heads, keys, out))
    scores = scope.one("matmul_core", q, k, transpose_b=True)
    if scope.chance(0.7):
        scores = scope.one("mul", scores, scope.number(scores, 1 / math.sqrt(width)))
    if scope.chance(0.4):
        scores = scope.one("add", scores, scope.broadcasting(dtype, scores.details.plain_dims))
    weights = scope.one("softmax", scores) if scope.chance(0.6) else softmax(scope, scores)
    y = scope.one("matmul_core", weights, v)
    if heads and scope.chance(0.4):  # the heads together, as the next matmul wants them
        rank = y.details.rank
        perm = (*range(rank - 3), rank - 2, rank - 3, rank - 1)
        y = scope.one("transpose", y, perm=perm)
        *lead, a, b = y.details.plain_dims
        y = scope.one("reshape", y, shape=(*lead, a * b))


def softmax(scope: Scope, x: GraphTensor) -> GraphTensor:
    """Add a softmax decomposed as exporters write it."""
    largest = scope.one("reduce_max", x, axes=(-1,), keep_dims=True)
    powers = scope.one("exp", scope.one("sub", x, largest))
    total = scope.one("reduce_sum", powers, axes=(-1,), keep_dims=True)
    return scope.one("div", powers, total)


def written_softmax(scope: Scope) -> None:
    """A softmax in its parts."""
    softmax(scope, scope.any(FLOAT, 1))


def written_norm(scope: Scope) -> None:
    """A layer norm or RMS norm in its parts."""
    x = scope.any(FLOAT, 1)
    rows = {"axes": (-1,), "keep_dims": True}
    if scope.chance(0.7):
        x = scope.one("sub", x, scope.one("reduce_mean", x, **rows))
    variance = scope.one("reduce_mean", scope.one("square", x), **rows)
    deviation = scope.one("sqrt", scope.one("add", variance, scope.number(x, 1e-5)))
    y = scope.one("div", x, deviation)
    if scope.chance(0.7):
        y = scope.one("mul", y, scope.weight(y.details.dtype, y.details.plain_dims[-1:]))
    follow(scope, y)


def written_gelu(scope: Scope) -> None:
    """gelu or silu in their parts."""
    x = scope.any(FLOAT)
    if scope.chance(0.5):
        scope.make("mul", [x, scope.one("sigmoid", x)])
        return
    bell = scope.one("erf", scope.one("div", x, scope.number(x, math.sqrt(2))))
    half = scope.one("mul", x, scope.number(x, 0.5))
    scope.make("mul", [half, scope.one("add", bell, scope.number(x, 1))])


def convolution_chain(scope: Scope) -> None:
    """Convolutions of f32 with batch norms, activations, pools and residuals."""
    x = image(scope, F32, scope.random.choice((1, 3, 4, 8, 16)), scope.weighted(((2, 4), (1, 1))))
    for _ in range(scope.random.randint(1, 3)):
        y = convolve(scope, x, x.details.plain_dims[1] if scope.chance(0.4) else 0)
        kind = scope.random.randrange(4)
        if kind == 0:
            channels = (1, y.details.plain_dims[1]) + (1,) * (y.details.rank - 2)
            y = scope.one("add", y, scope.weight(F32, channels))
        if kind == 1 and y.details == x.details:
            y = scope.one("add", y, x)
        if kind == 2:
            y = scope.one("relu", y)
        x = follow(scope, y, 1) if scope.chance(0.3) else y
    if scope.chance(0.3):
        scope.make("reduce_mean", [x], axes=tuple(range(2, x.details.rank)))


def shared(scope: Scope) -> None:
    """One tensor read by several ops whose results meet again."""
    x = scope.any(FLOAT)
    left = scope.one(scope.random.choice(_ACTIVATIONS), x)
    right = scope.one(scope.random.choice(_ACTIVATIONS), x)
    scope.make(scope.random.choice(("add", "sub", "mul", "max")), [left, right])


RECIPES: dict[str, Callable[[Scope], None]] = {
    "matmul and epilogue": matmul_epilogue,
    "attention": attention,
    "written softmax": written_softmax,
    "written norm": written_norm,
    "written gelu": written_gelu,
    "convolution chain": convolution_chain,
    "shared": shared,
}
