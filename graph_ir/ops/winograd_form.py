"""The transforms of Winograd's convolution F(m x m, 3 x 3): points, matrices, and vector code of each direction.

Y = A^T [(G w G^T) * (B^T d B)] A for a tile d of (m + 2) x (m + 2) input elements and m x m results (Lavin and Gray,
arXiv:1509.09308). The matrices follow from the points by Toom and Cook's scheme: 0, pairs +-p, and infinity. All pairs
are exact in binary, and so are the coefficients made of them. Of the pairs tried for m = 4, (3/4, 3/2) has an error 2.1
times below that of the usual (1, 2): 6 times that of the direct form, against 12 (root mean square over 256 channels).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ...base.records import dataclass
from ...tensor_ir.nodes import Expr

Array = np.ndarray[Any, Any]
MultiplyAdd = Callable[[float, Expr, Expr | None], Expr]
"""(factor, x, y) -> factor * x + y, without y where there is none."""
Bind = Callable[[Expr], Expr]
"""Names a value, so that using it twice computes it once."""


@dataclass(frozen=True)
class WinogradForm:
    """F(m x m, 3 x 3) with the points 0, +-pairs, infinity; there are m / 2 pairs."""

    name: str
    pairs: tuple[float, ...]

    smallest_tap: ClassVar[float] = 2.0**-21
    """A weight recovered from its transform counts as zero unless it exceeds this share of the sum of its terms: below,
    not even its sign is known."""

    @property
    def results(self) -> int:
        """m: results per axis of a tile."""
        return 2 * len(self.pairs)

    @property
    def elements(self) -> int:
        """Input elements, and products, per axis of a tile."""
        return self.results + 2

    @property
    def products(self) -> int:
        """Matrix products: one per pair of points."""
        return self.elements**2

    def weight_matrix(self) -> Array:
        """G [elements, 3], float64: the weights as a polynomial at each point, over the product of distances."""
        points = self._points()
        rows = [
            [x**i / np.prod([x - y for y in points if y != x]) for i in range(3)] for x in points
        ]
        return np.array([*rows, [0.0, 0.0, 1.0]])

    def weight_terms(self) -> tuple[tuple[tuple[int, float], ...], ...]:
        """For each of the 3 taps on an axis: the (element of G w, factor) that add up to it.

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
        last = [float(i == self.results - 1) for i in range(self.results)]
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
        """A^T m: `results` values of `elements` products."""
        pairs = list(zip(m[1:-1:2], m[2:-1:2], strict=True))
        sums = [bind(madd(1.0, a, b)) for a, b in pairs]
        differences = [bind(madd(-1.0, b, a)) for a, b in pairs]
        ends = {0: m[0], self.results - 1: m[-1]}
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
        """Coefficients in x^2, lowest first, of the product of (x^2 - p^2) over all pairs."""
        return np.atleast_1d(np.poly([pair**2 for pair in self.pairs]))[::-1]

    def _without(self, left_out: float) -> Array:
        """The same product without one pair."""
        return np.atleast_1d(np.poly([pair**2 for pair in self.pairs if pair != left_out]))[::-1]


F2 = WinogradForm("f2", (1.0,))
F4 = WinogradForm("f4", (0.75, 1.5))
FORMS = {form.results: form for form in (F2, F4)}


def _sum(coefficients: Array, values: Sequence[Expr], madd: MultiplyAdd) -> Expr:
    """The highest coefficient is 1, so its value starts the sum."""
    total = values[len(coefficients) - 1]
    for coefficient, value in zip(coefficients[:-1], values, strict=False):
        total = madd(float(coefficient), value, total)
    return total
