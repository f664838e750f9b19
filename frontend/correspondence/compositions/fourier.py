"""Discrete Fourier transforms as products with the matrices of their factors."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ....base.dtypes import S64
from ....base.records import dataclass
from ....graph_ir.ir.graph import Array
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder

DIRECT = 128
"""Up to this length one product with the whole matrix is faster than two with its factors and what lies between."""


@dataclass(frozen=True)
class Spectrum:
    """Real and imaginary part; `imag` is None where it is 0."""

    real: Tensor
    imag: Tensor | None


def transformed(
    node: OpBuilder, x: Spectrum, axis: int, length: int, inverse: bool, onesided: bool
) -> Spectrum:
    """The transform along an axis, inverse ones over `length`.

    Onesided, the forward transform gives the first half of the spectrum, and the inverse one takes it and gives a real
    result.
    """
    rank = x.real.details.rank
    order = [*(i for i in range(rank) if i != axis), axis]
    back = [order.index(i) for i in range(rank)]

    last = _each(x, lambda tensor: node.transposed(tensor, order))
    result = _along_last(node, last, length, inverse, onesided)
    return _each(result, lambda tensor: node.transposed(tensor, back))


def _each(x: Spectrum, function: Callable[[Tensor], Tensor]) -> Spectrum:
    """The function of the parts that there are."""
    return Spectrum(function(x.real), None if x.imag is None else function(x.imag))


def _along_last(
    node: OpBuilder, x: Spectrum, length: int, inverse: bool, onesided: bool
) -> Spectrum:
    if factor(length) == 1:
        return _product(node, x, matrix(length, x.real.details.plain_dims[-1], inverse, onesided))
    if inverse and onesided:
        x = _mirrored(node, x, length)
    *outer, _ = x.real.details.plain_dims
    whole = _factored(node, x, length, inverse)
    if inverse:
        scale = node.constant(1 / length, x.real.details.dtype)
        whole = _each(whole, lambda part: node.helper("mul", part, scale))
    if onesided and inverse:
        return Spectrum(whole.real, None)
    if onesided:
        kept, axis = length // 2 + 1, len(outer)
        return Spectrum(*(node.sliced(part, axis, 0, kept) for part in _both(whole)))
    return whole


def _both(x: Spectrum) -> tuple[Tensor, Tensor]:
    assert x.imag is not None
    return x.real, x.imag


def factor(length: int) -> int:
    """The smaller of the two factors a length is split into, the nearest to its root; 1 where it is not split."""
    if length <= DIRECT:
        return 1
    return next(n for n in range(math.isqrt(length), 0, -1) if length % n == 0)


def _factored(node: OpBuilder, x: Spectrum, length: int, inverse: bool) -> Spectrum:
    """The unscaled transform of n1 * n2 elements: over n1, turned, over n2.

    y[k1 + n1 k2] = sum over j2 of w2^(j2 k2) w^(j2 k1) (sum over j1 of w1^(j1 k1) x[j1 n2 + j2]).
    """
    n1 = factor(length)
    if n1 == 1:
        unscaled = matrix(length, length, inverse, onesided=False) * (length if inverse else 1)
        return _product(node, x, unscaled)
    n2, outer = length // n1, x.real.details.plain_dims[:-1]
    swap = [*range(len(outer)), len(outer) + 1, len(outer)]

    def parts(value: Spectrum, rows: int, columns: int) -> Spectrum:
        """[.., rows, columns] transposed."""

        dims = (*outer, rows, columns)
        return _each(value, lambda tensor: node.transposed(node.reshaped(tensor, dims), swap))

    first = _turned(node, _factored(node, parts(x, n1, n2), n1, inverse), length, inverse)
    second = parts(_factored(node, parts(first, n2, n1), n2, inverse), n1, n2)
    return Spectrum(*(node.reshaped(part, (*outer, length)) for part in _both(second)))


def _turned(node: OpBuilder, x: Spectrum, length: int, inverse: bool) -> Spectrum:
    """Element [.., j2, k1] turned by j2 k1 steps of `length`."""
    real, imag = _both(x)
    n2, n1 = real.details.plain_dims[-2:]
    steps = np.outer(np.arange(n2), np.arange(n1)) % length
    angle = (2 if inverse else -2) * np.pi * steps / length
    cosine, sine = (node.constant(f(angle), real.details.dtype) for f in (np.cos, np.sin))

    def mixed(op: str, a: Tensor, b: Tensor) -> Tensor:
        return node.helper(op, node.helper("mul", real, a), node.helper("mul", imag, b))

    return Spectrum(mixed("sub", cosine, sine), mixed("add", sine, cosine))


def _mirrored(node: OpBuilder, x: Spectrum, length: int) -> Spectrum:
    """The whole spectrum of a real signal, of which x is the first half."""
    axis, left = x.real.details.rank - 1, length - (length // 2 + 1)
    indices = node.constant(np.arange(left, 0, -1), S64)
    results = []
    for part, sign in zip(_both(x), (1, -1), strict=True):
        rest = node.helper("gather", part, indices, axis=axis)
        results.append(
            node.helper("concat", part, rest if sign > 0 else node.helper("neg", rest), axis=axis)
        )
    return Spectrum(*results)


def matrix(length: int, given: int, inverse: bool, onesided: bool) -> Array:
    """[part, result part, given, results]: what each part of an element adds to each part of a result."""
    results = length // 2 + 1 if onesided and not inverse else length
    turns = np.outer(np.arange(given), np.arange(results)) % length
    angle = (2 if inverse else -2) * np.pi * turns / length
    scale = np.full((given, 1), 1 / length if inverse else 1.0)
    if inverse and onesided:  # the other half is the same, conjugated
        alone = [0, length // 2] if length % 2 == 0 else [0]
        scale *= np.where(np.isin(np.arange(given), alone), 1, 2)[:, None]
    real, imaginary = scale * np.cos(angle), scale * np.sin(angle)
    rows = np.array([[real, imaginary], [-imaginary, real]])
    return rows[:, :1] if inverse and onesided else rows


def _product(node: OpBuilder, x: Spectrum, whole: Array) -> Spectrum:
    """One product of both parts, side by side, with the matrix of both results."""
    *outer, given = x.real.details.plain_dims
    parts = [x.real] if x.imag is None else [x.real, x.imag]
    results, columns = whole.shape[1], whole.shape[3]
    flat = np.concatenate([np.concatenate([*row], axis=1) for row in whole[: len(parts)]])
    node.check_array(flat.shape)
    joined = parts[0] if len(parts) == 1 else node.helper("concat", *parts, axis=len(outer))
    rows = node.reshaped(joined, (math.prod(outer), given * len(parts)))
    product = node.helper("matmul_core", rows, node.constant(flat, x.real.details.dtype))
    found = [
        node.reshaped(node.sliced(product, 1, i * columns, columns), (*outer, columns))
        for i in range(results)
    ]
    return Spectrum(found[0], found[1] if results == 2 else None)
