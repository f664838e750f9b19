"""Quantized tensors: to integers and back, and what quantized models put between the two."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....base.dtypes import F32, S8, U8, DType
from ....graph_ir.ir.graph import Array, GraphTensor
from ..scope import Dims, Scope
from .fusion import follow
from .windows import convolve, image

_TYPES = ((U8, 5), (S8, 5))


def _parameters(scope: Scope, dtype: DType, dims: Dims) -> list[GraphTensor]:
    """A scale, of one tensor or per slice of an axis, and mostly a zero point."""
    shape: Dims = ()
    if dims and scope.chance(0.3):
        axis = scope.random.randrange(len(dims))
        shape = tuple(size if i == axis else 1 for i, size in enumerate(dims))
    whole = scope.chance(0.4)
    scale = (
        2.0 ** scope.rng.integers(-5, 2, shape) if whole else scope.rng.uniform(0.01, 0.3, shape)
    )
    found = [scope.constant(np.asarray(scale, np.float32), "scale")]
    if scope.chance(0.7):
        low, high = dtype.limits
        zero = scope.rng.integers(low, high + 1, shape if scope.chance(0.5) else ())
        found.append(scope.constant(np.asarray(zero, dtype.numpy), "zero"))
    return found


def quantize(scope: Scope) -> None:
    """Floats to integers."""
    x, dtype = scope.any(("float",)), scope.weighted(_TYPES)
    parameters = _parameters(scope, dtype, x.details.plain_dims)
    scope.make("quantize", [x, *parameters], dtype=dtype.name)


def dequantized(scope: Scope, dims: Dims) -> GraphTensor:
    """Bytes of a shape as floats."""
    dtype = scope.weighted(_TYPES)
    return scope.one("dequantize", scope.like(dtype, dims), *_parameters(scope, dtype, dims))


def dequantize(scope: Scope) -> None:
    """Integers to floats."""
    dequantized(scope, scope.dims())


def again(scope: Scope, x: GraphTensor) -> GraphTensor:
    """x to bytes and back, as between the ops of a quantized model."""
    dtype = scope.weighted(_TYPES)
    parameters = _parameters(scope, dtype, ())
    quantized = scope.one("quantize", x, *parameters, dtype=dtype.name)
    return scope.one("dequantize", quantized, *parameters)


def quantized_matmul(scope: Scope) -> None:
    """A matmul of dequantized operands, the ops that follow it, and its result as bytes."""
    m, n, k, *lead = scope.fitting([scope.size() for _ in range(3 + scope.chance(0.3))])
    transposed = scope.chance(0.4)
    a, b = dequantized(scope, (*lead, m, k)), dequantized(scope, (n, k) if transposed else (k, n))
    y = scope.one("matmul_core", a, b, transpose_b=transposed)
    again(scope, follow(scope, y, 2))


def packed_matmul(scope: Scope) -> None:
    """A matmul of floats with constants of 4 or 8 bits in groups, which stay packed."""
    rows, columns = scope.size(), 16 + scope.size()
    group, high = scope.random.choice((16, 24, 32)), scope.random.choice((16, 256))
    rows, columns, terms = scope.fitting([rows, columns, group * scope.random.randint(1, 3)])
    dims = (columns, -(-terms // group))

    def each(blocks: Array) -> Array:
        return np.repeat(blocks, group, 1)[:, :terms]

    numbers = scope.rng.integers(0, high, (columns, terms)).astype(np.uint8)
    scales = scope.rng.uniform(0.01, 0.3, dims).astype(np.float32)
    given = [scope.constant(numbers, "packed"), scope.constant(each(scales), "scales")]
    if scope.chance(0.7):
        zero = scope.rng.integers(0, high, dims if scope.chance(0.5) else (1, 1)).astype(np.uint8)
        given.append(scope.constant(each(zero) if zero.size > 1 else zero, "zeros"))
    y = scope.one(
        "matmul_core",
        scope.like(F32, (rows, terms)),
        scope.one("dequantize", *given),
        transpose_b=True,
    )
    follow(scope, y, 2)


def function_of_bytes(scope: Scope) -> None:
    """A function or two of one dequantized tensor, as bytes again, with what rounds in between."""
    x = dequantized(scope, scope.dims())
    y = scope.one(scope.random.choice(("sigmoid", "erf", "gelu", "hard_swish", "tanh", "exp")), x)
    if scope.chance(0.5):
        y = scope.one("mul", again(scope, y) if scope.chance(0.5) else y, x)
    again(scope, y)


def quantized_convolution(scope: Scope) -> None:
    """The same of a convolution."""
    x = image(scope, F32, scope.random.choice((1, 3, 4, 8, 16)), 2)
    y = convolve(scope, again(scope, x))
    again(scope, follow(scope, y, 2))


RECIPES: dict[str, Callable[[Scope], None]] = {
    "quantize": quantize,
    "dequantize": dequantize,
    "quantized matmul": quantized_matmul,
    "packed matmul": packed_matmul,
    "function of bytes": function_of_bytes,
    "quantized convolution": quantized_convolution,
}
