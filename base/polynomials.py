"""Arithmetic of polynomials: mappings of monomials over ordered atoms to integer coefficients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Monomial = tuple[Any, ...]
"""Atoms in order, each as often as its power; () is 1."""

Terms = Mapping[Monomial, int]


def term_order(term: tuple[Monomial, int]) -> tuple[int, Monomial]:
    """The order of terms: higher degrees first, the constant last."""
    return -len(term[0]), term[0]


def sum_of(a: Terms, b: Terms, sign: int) -> dict[Monomial, int]:
    """a + sign * b, with terms that may be 0."""
    result = dict(a)
    for monomial, factor in b.items():
        result[monomial] = result.get(monomial, 0) + sign * factor
    return result


def multiply(a: Terms, b: Terms) -> dict[Monomial, int]:
    """a * b, with terms that may be 0."""
    result: dict[Monomial, int] = {}
    for x, p in a.items():
        for y, q in b.items():
            monomial = tuple(sorted((*x, *y)))
            result[monomial] = result.get(monomial, 0) + p * q
    return result


def quotient_of(a: Terms, b: Terms) -> dict[Monomial, int] | None:
    """a / b where that is a polynomial; None where it is none."""
    dividend = dict(a)
    result: dict[Monomial, int] = {}
    leading, factor = min(b.items(), key=term_order)
    while dividend:
        monomial, count = min(dividend.items(), key=term_order)
        rest = _without(monomial, leading)
        if rest is None or count % factor:
            return None
        result[rest] = count // factor
        for other, times in b.items():
            whole = tuple(sorted((*rest, *other)))
            left = dividend.get(whole, 0) - result[rest] * times
            dividend[whole] = left
            if not left:
                del dividend[whole]
    return result


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """Return the monomial divided by `part`, or None if `part` does not divide it."""
    left = list(monomial)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def divisor_needed(a: Terms, b: Terms) -> tuple[str, int] | None:
    """The symbol whose multiples of some number make a / b a polynomial, and the number; None where it is not one."""
    if len(b) != 1:
        return None
    ((part, divisor),) = b.items()
    common: set[Any] | None = None
    least = 1
    for monomial, factor in a.items():
        rest = _without(monomial, part)
        if rest is None:
            return _whole_quotient(a, part)
        needed = divisor // math.gcd(divisor, factor)
        if needed > 1:
            symbols = {atom for atom in rest if atom.symbols == (atom,)}
            common = symbols if common is None else common & symbols
            least = math.lcm(least, needed)
    if not common or len(common) > 1:
        return None
    return min(common).name, least


def _whole_quotient(a: Terms, part: Monomial) -> tuple[str, int] | None:
    """The symbol and divisor of a quotient of a symbol, H//2, that divides a sum of its multiples if it is whole."""
    for atom in part:
        symbols = atom.symbols
        is_lone = getattr(atom, "numerator", None) is not None and atom.numerator.terms == {
            symbols: 1
        }
        if is_lone and all(symbols[0] in monomial for monomial in a):
            return symbols[0].name, atom.divisor
    return None
