"""The transforms of Winograd's convolution F(m x m, 3 x 3): points, matrices, and vector code of each direction.

Y = A^T [(G w G^T) * (B^T d B)] A for a tile d of (m + 2) x (m + 2) input elements and m x m results (Lavin and Gray,
arXiv:1509.09308). The matrices follow from the points by Toom and Cook's scheme: 0, pairs +-p, and infinity. All pairs
are exact in binary, and so are the coefficients made of them. Of the pairs tried for m = 4, (3/4, 3/2) has an error 2.1
times below that of the usual (1, 2): 6 times that of the direct form, against 12 (root mean square over 256 channels).

Bytes have forms of their own, in integers: G times the least common multiple of its denominators, so that a result
comes out a known number of times too large, which is exact in s32. The transforms of both operands fit s16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ...base.contraction import accumulator_of
from ...base.dtypes import F32, S16, DType
from ...base.records import dataclass
from ...tensor_ir.nodes import Expr

Array = np.ndarray[Any, Any]
MultiplyAdd = Callable[[float, Expr, Expr | None], Expr]
"""(factor, x, y) -> factor * x + y, without y where there is none."""
Bind = Callable[[Expr], Expr]
"""Names a value, so that using it twice computes it once."""


@dataclass(frozen=True)
class WinogradForm:
    """F(m x m, 3 x 3) with the points 0, +-pairs, infinity; there are m / 2 pairs.

    `operand` is the type of the transformed image and weights. On each axis a result is `multiple` times the sum over
    the window. The term at infinity is added `last` times, because s16 has no room for all of
    it in the weights.
    """

    name: str
    pairs: tuple[float, ...]
    operand: DType = F32
    multiple: int = 1
    last: int = 1

    smallest_tap: ClassVar[float] = 2.0**-21
    """A weight recovered from its transform counts as zero unless it exceeds this share of the sum of its terms: below,
    not even its sign is known."""

    @property
    def results(self) -> int:
        """m: results per axis of a tile."""
        return 2 * len(self.pairs)

    @property
    def elements(self) -> int:
        """Input elements, and points, per axis of a tile."""
        return self.results + 2

    @property
    def matmuls(self) -> int:
        """The number of matmuls: one per pair of points."""
        return self.elements**2

    @property
    def sums(self) -> DType:
        """The accumulator dtype, also that of results."""
        return accumulator_of(self.operand, self.operand)

    @property
    def shift(self) -> int:
        """The power of 2 in `multiple` squared, and so the bits of s32 that results have less."""
        return 2 * ((self.multiple & -self.multiple).bit_length() - 1)

    @property
    def inverse(self) -> int:
        """The factor that divides an integer result by the odd part of `multiple` squared, modulo 2^32."""
        found = pow(self.multiple**2 >> self.shift, -1, 1 << 32)
        return found - (found >> 31 << 32)

    def weight_matrix(self) -> Array:
        """G [elements, 3], float64: the weights as a polynomial at each point, divided by all distances to
        other points."""
        points = self._points()
        rows = [
            [self.multiple * x**i / np.prod([x - y for y in points if y != x]) for i in range(3)]
            for x in points
        ]
        return np.array([*rows, [0.0, 0.0, self.multiple / self.last]])

    def weight_terms(self) -> tuple[tuple[tuple[int, float], ...], ...]:
        """The (element of G w, factor) that add up to each of the 3 taps on an axis.

        The value at 0 is the first tap, that at infinity the last; the difference of a pair is the middle one.
        """
        points, pair = self._points(), self.pairs[0]
        distances = [float(np.prod([x - y for y in points if y != x])) for x in points]
        middle = distances[1] / (2 * pair)
        return ((0, distances[0]),), ((1, middle), (2, -middle)), ((self.elements - 1, 1.0),)

    def input_matrix(self) -> Array:
        """B^T [elements, elements], float64, row by row in the order of `transform_input`."""
        unit = np.eye(self.elements)
        even, odd = unit[0:-1:2], unit[1::2]
        rows = [self._whole() @ even]
        for pair in self.pairs:
            rest = self._without(pair)
            sign = pair * (rest @ odd[:-1])
            rows += [rest @ even[1:] + sign, rest @ even[1:] - sign]
        return np.array([*rows, self._whole() @ odd])

    def output_matrix(self) -> Array:
        """A^T [results, elements], float64."""
        columns = [[x**i for i in range(self.results)] for x in self._points()]
        last = [float(self.last * (i == self.results - 1)) for i in range(self.results)]
        return np.array([*columns, last]).T

    def transform_input(self, d: Sequence[Expr], madd: MultiplyAdd, bind: Bind) -> list[Expr]:
        """B^T d of `elements` values: 12 multiply-adds for m = 4."""
        even, odd = d[0:-1:2], d[1::2]
        result = [_sum(self._whole(), even, madd)]
        for pair in self.pairs:
            rest = self._without(pair)
            middle = bind(_sum(rest, even[1:], madd))
            side = bind(_sum(rest, odd[:-1], madd))
            result += [madd(pair, side, middle), madd(-pair, side, middle)]
        return [bind(x) for x in (*result, _sum(self._whole(), odd, madd))]

    def transform_output(self, m: Sequence[Expr], madd: MultiplyAdd, bind: Bind) -> list[Expr]:
        """Return A^T m: `results` values from `elements` points."""
        pairs = list(zip(m[1:-1:2], m[2:-1:2], strict=True))
        sums = [bind(madd(1.0, a, b)) for a, b in pairs]
        differences = [bind(madd(-1.0, b, a)) for a, b in pairs]
        ends = {0: m[0], self.results - 1: madd(self.last, m[-1], None)}
        found = []
        for power in range(self.results):
            terms = differences if power % 2 else sums
            value = ends.get(power)
            for pair, term in zip(self.pairs, terms, strict=True):
                value = madd(pair**power, term, value)
            assert value is not None
            found.append(bind(value))
        return found

    def _points(self) -> list[float]:
        return [0.0, *(x for pair in self.pairs for x in (pair, -pair))]

    def _whole(self) -> Array:
        """Return the coefficients in x^2, lowest first, of (x^2 - p^2) multiplied over all pairs."""
        return np.atleast_1d(np.poly([pair**2 for pair in self.pairs]))[::-1]

    def _without(self, left_out: float) -> Array:
        """Return the coefficients without one pair."""
        return np.atleast_1d(np.poly([pair**2 for pair in self.pairs if pair != left_out]))[::-1]


F2 = WinogradForm("f2", (1.0,))
F4 = WinogradForm("f4", (0.75, 1.5))
FORMS = {form.results: form for form in (F2, F4)}
"""Float forms, by number of results."""

BYTES_F2 = WinogradForm("f2", (1.0,), S16, 2)
BYTES_F4 = WinogradForm("f4", (1.0, 2.0), S16, 24, 2)
BYTE_FORMS = {form.results: form for form in (BYTES_F2, BYTES_F4)}
"""Byte forms, by number of results."""


def holds(form: WinogradForm, w: Array, x: DType) -> bool:
    """Return whether weights s8[O, C, 3, 3] give results that fit what a form leaves of s32, of any image of bytes."""
    taps = w.reshape(len(w), -1).astype(np.int64)
    above, below = np.maximum(taps, 0).sum(1), np.maximum(-taps, 0).sum(1)
    limits = np.iinfo(x.numpy)
    most = np.maximum(
        limits.max * above - limits.min * below, limits.max * below - limits.min * above
    )
    return bool(most.max(initial=0) < 1 << 31 - form.shift)


def _sum(coefficients: Array, values: Sequence[Expr], madd: MultiplyAdd) -> Expr:
    """The highest coefficient is 1, so its value starts the sum."""
    total = values[len(coefficients) - 1]
    for coefficient, value in zip(coefficients[:-1], values, strict=False):
        total = madd(float(coefficient), value, total)
    return total
