"""What open sizes must be for a decision to be known: `NeedsLimit` that says so, after which a model is read again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from .dims import (
    Atom,
    Dim,
    Quotient,
    Size,
    evaluate,
    floor_quotient,
    lone_symbol,
    size,
    substitute,
    symbols_of,
)
from .symbols import MOST, Limit, NeedsLimit, Symbol, UndecidedSize

T = TypeVar("T")


def limited(value: Size, limits: Mapping[str, Limit]) -> Size:
    """The expression with symbols within `limits`, by name; of a symbol with a divisor, that times another symbol."""
    for symbol in symbols_of([value]):
        limit = limits.get(symbol.name)
        if limit is not None:
            value = substitute(value, {symbol.name: _within(symbol, limit, limits)})
    return value


def _within(symbol: Symbol, limit: Limit, limits: Mapping[str, Limit]) -> Size:
    if limit.equal is not None:
        return limited(limit.equal, limits)
    least, most = max(symbol.least, limit.least), min(symbol.most, limit.most)
    if limit.divisor == 1:
        return size(Symbol(symbol.name, least, max(least, most)))
    name = f"{symbol.name}_{limit.divisor}"
    part = size(Symbol(name, max(1, -(-least // limit.divisor)), most // limit.divisor))
    return limited(part, limits) * limit.divisor


def at_most(value: Size, limits: Mapping[str, Size]) -> Size:
    """A size that is at least the expression, without the symbols of `limits`: for the largest that these can be.

    What they are subtracted in counts as 0 there, as they may be. No limit has a symbol of another.
    """
    if not isinstance(value, Dim) or not any(s.name in limits for s in value.symbols):
        return value
    total: Size = 0
    for monomial, factor in value.terms.items():
        term: Size = factor
        for atom in monomial:
            term = term * _atom_at_most(atom, limits)
        whole = Dim({monomial: factor})
        if factor > 0 or not any(s.name in limits for s in whole.symbols):
            total = total + term
    return total


def _atom_at_most(atom: Atom, limits: Mapping[str, Size]) -> Size:
    if isinstance(atom, Quotient):
        return floor_quotient(at_most(atom.numerator, limits), atom.divisor)
    return limits.get(atom.name, size(atom))


def larger(one: Size, other: Size) -> Size:
    """The larger of two sizes from 0 on; their sum where that depends on the run."""
    try:
        return one if one >= other else other
    except UndecidedSize:
        return one + other


def known_limits(limits: Mapping[str, Limit], needed: NeedsLimit) -> dict[str, Limit] | None:
    """`limits` with what is needed; None where they hold it already, so that it would be of no use."""
    old = limits.get(needed.name, Limit())
    new = old.within(needed.limit)
    return None if new == old else {**limits, needed.name: new}


def within_limits(attempt: Callable[[Mapping[str, Limit]], T], limits: Mapping[str, Limit]) -> T:
    """What an attempt makes with what sizes must be, by name: `limits` and those that it finds to need."""
    while True:
        try:
            return attempt(limits)
        except NeedsLimit as needed:
            found = known_limits(limits, needed)
            if found is None:
                raise
            limits = found


def at_least(value: Size, number: int) -> bool:
    """value >= number; NeedsLimit where that is so from some value of its only symbol on."""
    try:
        return value >= number
    except UndecidedSize as undecided:
        least = _least_for(value, number)
        if least is None:
            raise
        raise NeedsLimit(str(undecided), *least) from None


def _least_for(value: Size, number: int) -> tuple[str, Limit] | None:
    """From which value of the symbol on an expression that grows with it is at least `number`."""
    symbols = symbols_of([value])
    if len(symbols) != 1 or not isinstance(value, Dim):
        return None
    if any(factor < 0 for monomial, factor in value.terms.items() if monomial):
        return None
    (symbol,) = symbols
    low, high = symbol.least, symbol.most
    if evaluate(value, {symbol.name: high}) < number:
        return None
    while low < high:
        middle = (low + high) // 2
        enough = evaluate(value, {symbol.name: middle}) >= number
        low, high = (low, middle) if enough else (middle + 1, high)
    return symbol.name, Limit(least=low)


def check_multiples(a: Size, b: Size) -> None:
    """NeedsLimit where two sizes that differ are equal for all multiples of some number: H and 2*(H//2)."""
    for symbol in symbols_of([a, b]):
        divisor = math.lcm(*(_divisors(a, symbol) + _divisors(b, symbol)))
        if divisor > 1 and symbol.most > divisor:
            whole = {symbol.name: size(Symbol(symbol.name, 1, MOST // divisor)) * divisor}
            if substitute(a, whole) == substitute(b, whole):
                message = f"{a} and {b} are equal for some values of {symbol.name} only"
                raise NeedsLimit(message, symbol.name, Limit(divisor=divisor))


def check_equal(one: Size, other: Size) -> None:
    """NeedsLimit where two sizes that must be equal can be, though they differ: for some multiples, or as one size.

    A symbol without a range, or of the same, becomes the other size; of two symbols the second.
    """
    check_multiples(one, other)
    for symbol, whole in ((lone_symbol(other), one), (lone_symbol(one), other)):
        if symbol is None or not isinstance(whole, Dim) or symbol in whole.symbols:
            continue
        same = lone_symbol(whole)
        if not symbol.has_range or (same and same.range_text == symbol.range_text):
            message = f"'{symbol.name}' and '{whole}' must be one size"
            raise NeedsLimit(message, symbol.name, Limit(equal=whole))


def broadcast_sizes(*shapes: Sequence[Size]) -> tuple[Any, ...]:
    """As `np.broadcast_shapes`: of two sizes on one axis, aligned right, both are equal or one is 1.

    ValueError; NeedsLimit where two open sizes can be one.
    """
    rank = max(map(len, shapes), default=0)
    result: list[Size] = [1] * rank
    for shape in shapes:
        for axis, one in enumerate(shape, rank - len(shape)):
            if result[axis] == 1:
                result[axis] = one
            elif one not in (1, result[axis]):
                check_equal(result[axis], one)
                raise ValueError(f"{result[axis]} and {one}")
    return tuple(result)


def _divisors(value: Size, symbol: Symbol) -> list[int]:
    """What a symbol is divided by in an expression, rounded down."""
    atoms = {atom for monomial in getattr(value, "terms", ()) for atom in monomial}
    return [one.divisor for one in atoms if isinstance(one, Quotient) and symbol in one.symbols]
