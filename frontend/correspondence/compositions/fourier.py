"""Discrete Fourier transforms of any length in O(N log N): matmuls with the matrices of the factors of the length, and
convolutions with a chirp for large prime factors."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ....base.dims import Size
from ....base.dtypes import F32, S64, DType
from ....base.records import dataclass
from ....base.size_queries import typical
from ....graph_ir.ir.graph import Array
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder

DIRECT = 128
"""Up to this length, one matmul with the whole matrix is faster than two with its factors and the steps between."""

DIRECT_PRIME = 400
"""Up to this prime length the matmul is faster than a convolution with a chirp, which takes two transforms of more
than twice the length (measured, as are the next two)."""

MANY_ROWS = 16
"""Rows from which on a matmul reads the matrix once for several."""

DIRECT_PRIME_ROWS = 1600
"""The same limit for many rows."""


@dataclass(frozen=True)
class Spectrum:
    """Real and imaginary part; `imag` is None where it is 0."""

    real: Tensor
    imag: Tensor | None


Factors = tuple[Tensor, Tensor]
"""Real and imaginary parts of constants that a spectrum is multiplied by."""


def transformed(
    node: OpBuilder, x: Spectrum, axis: int, length: int, inverse: bool, onesided: bool
) -> Spectrum:
    """The transform along an axis, inverse ones over `length`.

    Onesided, the forward transform gives the first half of the spectrum, and the inverse one takes it and gives a
    real result.
    """
    rank = x.real.details.rank
    order = [*(i for i in range(rank) if i != axis), axis]
    back = [order.index(i) for i in range(rank)]

    last = each(x, lambda tensor: node.transposed(tensor, order))
    result = _along_last(node, last, length, inverse, onesided)
    return each(result, lambda tensor: node.transposed(tensor, back))


def each(x: Spectrum, function: Callable[[Tensor], Tensor]) -> Spectrum:
    """The function of the parts that there are."""
    return Spectrum(function(x.real), None if x.imag is None else function(x.imag))


def _along_last(
    node: OpBuilder, x: Spectrum, length: int, inverse: bool, onesided: bool
) -> Spectrum:
    dtype = x.real.details.dtype
    if is_direct(length, _rows(x.real)):
        return _multiply(node, x, matrix(length, x.real.details.plain_dims[-1], inverse, onesided))
    if dtype.bits < 32:  # what lies between is not rounded to so few bits
        wide = each(x, lambda part: node.converted(part, F32))
        found = _along_last(node, wide, length, inverse, onesided)
        return each(found, lambda part: node.converted(part, dtype))
    if inverse and onesided:
        x = _mirrored(node, x, length)
    *outer, _ = x.real.details.plain_dims
    whole = _factored(node, x, length, inverse, {})
    if inverse:
        scale = node.constant(1 / length, x.real.details.dtype)
        whole = each(whole, lambda part: node.helper("mul", part, scale))
    if onesided and inverse:
        return Spectrum(whole.real, None)
    if onesided:
        kept, axis = length // 2 + 1, len(outer)
        return Spectrum(*(node.sliced(part, axis, 0, kept) for part in _both(whole)))
    return whole


def _both(x: Spectrum) -> tuple[Tensor, Tensor]:
    assert x.imag is not None
    return x.real, x.imag


def is_direct(length: int, rows: Size) -> bool:
    """Return whether a transform of `rows` rows is one matmul with the whole matrix."""
    limit = DIRECT_PRIME_ROWS if typical(rows) >= MANY_ROWS else DIRECT_PRIME
    return length <= DIRECT or (length <= limit and _factor(length) == 1)


def _rows(x: Tensor) -> Size:
    return math.prod(x.details.plain_dims[:-1])


def _factor(length: int) -> int:
    """The smaller of the two factors a length is split into, the nearest to its root; 1 of a prime."""
    return next(n for n in range(math.isqrt(length), 0, -1) if length % n == 0)


def smooth(least: int) -> int:
    """Return the smallest number from `least` on that has no prime factor above 5."""
    found = 1 << (least - 1).bit_length()
    threes = [3**i for i in range(least.bit_length())]
    for odd in (three * 5**i for three in threes for i in range(least.bit_length())):
        if odd < found:
            found = min(found, odd << max(-(-least // odd) - 1, 0).bit_length())
    return found


def _factored(
    node: OpBuilder, x: Spectrum, length: int, inverse: bool, made: dict[int, Factors]
) -> Spectrum:
    """The unscaled transform of n1 * n2 elements: over n1, times a root of unity, over n2.

    y[k1 + n1 k2] = sum over j2 of w2^(j2 k2) w^(j2 k1) (sum over j1 of w1^(j1 k1) x[j1 n2 + j2]).
    """
    if is_direct(length, _rows(x.real)):
        unscaled = matrix(length, length, inverse, onesided=False) * (length if inverse else 1)
        return _multiply(node, x, unscaled)
    n1 = _factor(length)
    if n1 == 1:
        return _convolved(node, x, length, inverse, made)
    n2, outer = length // n1, x.real.details.plain_dims[:-1]
    swap = [*range(len(outer)), len(outer) + 1, len(outer)]

    def parts(value: Spectrum, rows: int, columns: int) -> Spectrum:
        """[.., rows, columns] transposed."""

        dims = (*outer, rows, columns)
        return each(value, lambda tensor: node.transposed(node.reshaped(tensor, dims), swap))

    dtype = x.real.details.dtype
    if length not in made:
        made[length] = _constants(
            node, dtype, *_roots(np.outer(np.arange(n2), np.arange(n1)), length)
        )
    first = _factored(node, parts(x, n1, n2), n1, inverse, made)
    first = _times(node, first, made[length], inverse)
    second = parts(_factored(node, parts(first, n2, n1), n2, inverse, made), n1, n2)
    return Spectrum(*(node.reshaped(part, (*outer, length)) for part in _both(second)))


def _convolved(
    node: OpBuilder, x: Spectrum, length: int, inverse: bool, made: dict[int, Factors]
) -> Spectrum:
    """The unscaled transform of any length as a convolution (Bluestein's algorithm).

    As 2jk = j^2 + k^2 - (k - j)^2, y[k] = c[k] sum over j of (x[j] c[j]) / c[k - j], where c[j] = w^(j^2 / 2). The sum
    is the multiplication of spectra of a length without large prime factors, where the chirp 1 / c has room for both
    signs of k - j.
    """
    axis, size = x.real.details.rank - 1, smooth(2 * length - 1)
    cosine, sine = _roots(np.arange(length) ** 2 % (2 * length), 2 * length)
    inverted = np.zeros(
        size, complex
    )  # of the forward transform; conjugated, that of the inverse one
    inverted.real[:length], inverted.imag[:length] = cosine, -sine
    inverted[size - length + 1 :] = inverted[length - 1 : 0 : -1]
    filtered = np.fft.fft(inverted.conj() if inverse else inverted) / size
    dtype = x.real.details.dtype
    chirp = _constants(node, dtype, cosine, sine)
    response = _constants(node, dtype, filtered.real, filtered.imag)
    after = tuple(size - length if i == axis else 0 for i in range(axis + 1))

    def padded(part: Tensor) -> Tensor:
        return node.helper("pad", part, before=(0,) * (axis + 1), after=after, value=0.0)

    start = each(_times(node, x, chirp, inverse), padded)
    spectra = _times(node, _factored(node, start, size, False, made), response)
    found = _factored(node, spectra, size, True, made)
    kept = each(found, lambda part: node.sliced(part, axis, 0, length))
    return _times(node, kept, chirp, inverse)


def _roots(powers: Array, length: int) -> tuple[Array, Array]:
    """Powers below `length` of the first root of unity: real and imaginary parts, for the forward transform."""
    angles = powers * (-2 * np.pi / length)
    return np.cos(angles), np.sin(angles)


def _constants(node: OpBuilder, dtype: DType, real: Array, imag: Array) -> Factors:
    return node.constant(real, dtype), node.constant(imag, dtype)


def _times(node: OpBuilder, x: Spectrum, factors: Factors, conjugated: bool = False) -> Spectrum:
    """x times complex numbers that are known, or times their conjugates."""
    real, imag = x.real, x.imag
    cosine, sine = factors
    if imag is None:
        scaled = node.helper("mul", real, sine)
        return Spectrum(
            node.helper("mul", real, cosine), node.helper("neg", scaled) if conjugated else scaled
        )

    def mixed(op: str, a: Tensor, b: Tensor) -> Tensor:
        return node.helper(op, node.helper("mul", real, a), node.helper("mul", imag, b))

    if conjugated:
        cross = node.helper("mul", imag, cosine)
        return Spectrum(
            mixed("add", cosine, sine), node.helper("sub", cross, node.helper("mul", real, sine))
        )
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


def _multiply(node: OpBuilder, x: Spectrum, whole: Array) -> Spectrum:
    """Multiply both parts, concatenated, by one matrix that yields both results."""
    *outer, given = x.real.details.plain_dims
    parts = [x.real] if x.imag is None else [x.real, x.imag]
    results, columns = whole.shape[1], whole.shape[3]
    flat = np.concatenate([np.concatenate([*row], axis=1) for row in whole[: len(parts)]])
    node.check_array(flat.shape)
    joined = parts[0] if len(parts) == 1 else node.helper("concat", *parts, axis=len(outer))
    rows = node.reshaped(joined, (math.prod(outer), given * len(parts)))
    spectra = node.helper("matmul_core", rows, node.constant(flat, x.real.details.dtype))
    found = [
        node.reshaped(node.sliced(spectra, 1, i * columns, columns), (*outer, columns))
        for i in range(results)
    ]
    return Spectrum(found[0], found[1] if results == 2 else None)
