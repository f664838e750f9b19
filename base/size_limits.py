"""Constraints on dynamic sizes: `NeedsLimit` names the constraint a decision needs, and the model is read again
with it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from .dims import (
    Atom,
    Derived,
    Dim,
    Minimum,
    Quotient,
    Size,
    bounds,
    evaluate,
    size,
    substitute,
    symbols_of,
)
from .errors import GraphcError, UnsupportedError, UserError
from .size_queries import factored, is_multiple, lone_symbol, typical
from .symbols import MOST, Limit, NeedsLimit, Symbol, UndecidedOrder, UndecidedSize
from .unequal_sizes import recording_unequal

T = TypeVar("T")

_MAX_FAILURES = 6
"""Assumptions that may fail before a model is refused, so that a large one is not read many times."""


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
    if isinstance(atom, Derived):
        return atom.of(*(at_most(operand, limits) for operand in atom.operands))
    return limits.get(atom.name, size(atom))


def larger(one: Size, other: Size) -> Size:
    """The larger of two sizes from 0 on; their sum where that depends on the run."""
    try:
        return one if one >= other else other
    except UndecidedSize:
        return one + other


def known_limits(limits: Mapping[str, Limit], needed: NeedsLimit) -> dict[str, Limit] | None:
    """`limits` with what is needed; None where they hold it already, or make it the size itself."""
    old = limits.get(needed.name, Limit())
    new = old.within(needed.limit)
    equal = 0 if new.equal is None else limited(new.equal, limits)
    named = [symbol.name for symbol in symbols_of([equal])]
    return None if new == old or needed.name in named else {**limits, needed.name: new}


def deciding_limits(
    limits: Mapping[str, Limit], undecided: UndecidedSize
) -> dict[str, Limit] | None:
    """`limits` with those within which a decision is known, and comparisons come out as for typical sizes; None where
    there are none."""
    needed = undecided
    if isinstance(undecided, UndecidedOrder):
        limit = _limit_as_typical(undecided.difference, undecided.holds)
        if limit is not None:
            needed = NeedsLimit(str(undecided), *limit)
    return known_limits(limits, needed) if isinstance(needed, NeedsLimit) else None


def _limit_as_typical(difference: Dim, holds: Callable[[int], bool]) -> tuple[str, Limit] | None:
    """Return the limit of a symbol that gives a difference a sign of which `holds` is what it is for typical sizes."""
    primitive = _primitive(difference)
    at = typical(primitive)
    sign = 1 if at > 0 else -1 if at < 0 else 0
    if not sign:
        return None
    needed = 0 if holds(0) == holds(sign) else 1
    return _limit_for(primitive * sign, needed)


def within_limits(attempt: Callable[[Mapping[str, Limit]], T], limits: Mapping[str, Limit]) -> T:
    """Return what an attempt makes with what sizes must be, by name: `limits` and those that it finds to need.

    Where a rule fails, sizes that it compared and that a run may make equal are assumed to be equal. The first error is
    raised where no such assumption helps.
    """
    return _Search(attempt).run(limits)


class _Search(Generic[T]):
    """Attempts with more and more assumptions, of which a few may be wrong."""

    def __init__(self, attempt: Callable[[Mapping[str, Limit]], T]) -> None:
        self.attempt = attempt
        self.failures = 0

    def run(self, limits: Mapping[str, Limit]) -> T:
        """Return the result of the attempt within `limits` and any further limits that it needs."""
        while True:
            with recording_unequal() as pairs:
                try:
                    return self.attempt(limits)
                except UndecidedSize as undecided:
                    found = deciding_limits(limits, undecided)
                    if found is None:
                        raise
                    limits = found
                except UserError as error:
                    wrong = error
                    break
        failed: GraphcError = _undecided(pairs, wrong) or wrong
        for assumed in _assumptions(pairs, limits):
            if self.failures >= _MAX_FAILURES:
                break
            try:
                return self.run(assumed)
            except UserError:
                self.failures += 1
            except UnsupportedError as error:  # the rule holds
                self.failures += 1
                failed = error
        raise failed


def _undecided(pairs: Sequence[tuple[Any, Any]], error: UserError) -> UndecidedSize | None:
    """The error of a rule whose sizes may agree in a run, though no value of one of their symbols makes them so.

    They are those that were compared last, or that the rule's own error shows.
    """
    rule = str(error).removesuffix(".")
    compared = [(one, other) for one, other in pairs if str(one) in rule and str(other) in rule]
    if not any(_may_agree(one, other) for one, other in (*compared, *[*pairs][-1:])):
        return None
    return UndecidedSize(
        f"{rule}: whether these sizes agree is not known at compile time; give them as numbers"
    )


def _may_agree(one: Any, other: Any) -> bool:
    """Return whether monomials of symbols are equal for some of their values, and none of them says which.

    A symbol by itself would have become the other size, except for ranges that say otherwise.
    """
    if not all(isinstance(size, (int, Dim)) for size in (one, other)) or equality(one, other):
        return False
    if lone_symbol(one) or lone_symbol(other):
        return False
    low, high = bounds(one - other)
    return len(symbols_of([one, other])) > 1 and low <= 0 <= high


def _assumptions(
    pairs: Iterable[tuple[Any, Any]], limits: Mapping[str, Limit]
) -> Iterator[dict[str, Limit]]:
    """`limits` with one of the pairs made equal, the latest first.

    What is compared with 0 and 1 asks for a special case rather than for a size: that it is another number is assumed,
    and only in the end that one without a range is 0 or 1, as an axis is that is squeezed. The last assumption is that
    a cache is empty.
    """
    tried = set[tuple[str, Limit]]()
    latest = [*pairs][::-1]
    special = [0 in pair or 1 in pair for pair in latest]
    first = (_inequality if is_special else equality for is_special in special)
    rules = [*zip(first, latest, strict=True)]
    rules += [
        (equality, pair)
        for pair, is_special in zip(latest, special, strict=True)
        if is_special and not any(symbol.has_range for symbol in symbols_of(pair))
    ]
    rules += [(_nothing_before, pair) for pair in latest]
    for rule, (one, other) in rules:
        needed = rule(one, other)
        if needed is None or (needed.name, needed.limit) in tried:
            continue
        tried.add((needed.name, needed.limit))
        found = known_limits(limits, needed)
        if found is not None:
            yield found


def at_least(value: Size, number: Size) -> bool:
    """value >= number; NeedsLimit where that is so from or up to some value of its only symbol."""
    if isinstance(number, Dim):
        value, number = value - number, 0
    try:
        return value >= number
    except UndecidedSize as undecided:
        factors = _only_factors(value)
        if number == 1 and len(factors) > 1:
            return all(at_least(factor, 1) for factor in factors)
        limit = _limit_for(value, number)
        if limit is None:
            raise
        raise NeedsLimit(str(undecided), *limit) from None


def _only_factors(value: Size) -> list[Size]:
    """Return the symbols and quotients that a monomial multiplies; an empty list for a sum."""
    if not isinstance(value, Dim) or len(value.terms) > 1:
        return []
    ((atoms, factor),) = value.terms.items()
    return [Dim({(atom,): 1}) for atom in dict.fromkeys(atoms)] if factor > 0 else []


def _limit_for(value: Size, number: int) -> tuple[str, Limit] | None:
    """Return the symbol and the limit from or up to which a monotonic expression of one symbol is at least `number`.

    For a sum that grows with several symbols, the limit of the symbol with the largest minimum.
    """
    symbols = symbols_of([value])
    if not symbols or not isinstance(value, Dim):
        return None
    signs = {factor > 0 for monomial, factor in value.terms.items() if monomial}
    if len(signs) > 1:
        return _proved_limit(value, number, *symbols) if len(symbols) == 1 else None
    (grows,) = signs
    symbol = max(symbols, key=lambda each: each.least)
    others = {each.name: each.least for each in symbols}
    if len(symbols) > 1 and not grows:
        return None
    inside, outside = (symbol.most, symbol.least) if grows else (symbol.least, symbol.most)

    def is_enough(at: int) -> bool:
        return evaluate(value, {**others, symbol.name: at}) >= number

    if not is_enough(inside):
        return None
    inside = outside if is_enough(outside) else inside
    while abs(inside - outside) > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if is_enough(middle) else (inside, middle)
    return symbol.name, Limit(least=inside) if grows else Limit(most=inside)


def _proved_limit(value: Dim, number: int, symbol: Symbol) -> tuple[str, Limit] | None:
    """Return the least size, up to a typical one, from which on bounds show that an expression is at least `number`."""

    def is_enough(least: int) -> bool:
        larger = size(Symbol(symbol.name, least, symbol.most))
        return bounds(substitute(value, {symbol.name: larger}))[0] >= number

    tried = range(symbol.least, min(symbol.most, max(symbol.typical, symbol.least)) + 1)
    found = bisect_left(tried, True, key=is_enough)
    return (symbol.name, Limit(least=tried[found])) if found < len(tried) else None


def _multiples(a: Size, b: Size) -> NeedsLimit | None:
    """Return the first limit that makes sizes equal which are so for all multiples of numbers: H and 2*(H//2)."""
    divisors = {
        symbol: math.lcm(*(_divisors(a, symbol) + _divisors(b, symbol)))
        for symbol in symbols_of([a, b])
    }
    needed = {symbol: n for symbol, n in divisors.items() if 1 < n < symbol.most}
    whole = {s.name: size(Symbol(s.name, 1, MOST // n)) * n for s, n in needed.items()}
    if not needed or substitute(a, whole) != substitute(b, whole):
        return None
    symbol = next(iter(needed))
    message = f"{a} and {b} are equal for some values of {symbol.name} only"
    return NeedsLimit(message, symbol.name, Limit(divisor=needed[symbol]))


def _uncut(difference: Size) -> NeedsLimit | None:
    """Return what makes a difference with a minimum 0, as of rows of a table: T at most 32 for min(32;T) - T."""
    difference = _without_factors(difference, lambda atom: not isinstance(atom, Minimum))
    terms = difference.terms.items() if isinstance(difference, Dim) else ()
    for monomial, factor in terms:
        cut = monomial[0] if len(monomial) == 1 and abs(factor) == 1 else None
        if not isinstance(cut, Minimum):
            continue
        wanted = Dim({monomial: 1}) - difference * factor
        for smaller, other in (cut.operands, cut.operands[::-1]):
            apart = smaller - wanted
            if isinstance(apart, Dim) or apart:
                continue
            try:
                at_least(other - smaller, 0)
            except NeedsLimit as needed:
                return needed
            except UndecidedSize:
                continue
    return None


def _inequality(one: Any, other: Any) -> NeedsLimit | None:
    """Return what makes a symbol differ from its least value; None for other sizes."""
    for value, number in ((one, other), (other, one)):
        symbol = lone_symbol(value)
        if symbol and symbol.least == number < symbol.most:
            message = f"'{symbol.name}' must not be {number}"
            return NeedsLimit(message, symbol.name, Limit(least=symbol.least + 1))
    return None


def _nothing_before(one: Any, other: Any) -> NeedsLimit | None:
    """Return what makes S and P+S equal, the rows of a prompt and those with a cache before them: no P."""
    if not isinstance(one, Dim) or not isinstance(other, Dim):
        return None
    symbol = lone_symbol(one - other) or lone_symbol(other - one)
    if symbol is None or symbol.has_range:
        return None
    return NeedsLimit(f"'{symbol.name}' must be 0", symbol.name, Limit(equal=0))


def check_equal(one: Size, other: Size) -> None:
    """NeedsLimit where two sizes that must be equal can be, though they differ: for some multiples, or as one size."""
    needed = equality(one, other)
    if needed is not None:
        raise needed


def covers(whole: Size, part: Size) -> bool:
    """part <= whole; NeedsLimit where that is so from some size on, or where the two are assumed to be one size."""
    try:
        return at_least(whole - part, 0)
    except NeedsLimit:
        raise
    except UndecidedSize:
        check_equal(whole, part)
        raise


def equality(one: Any, other: Any) -> NeedsLimit | None:
    """Return a constraint that makes two sizes equal: a value of one of their symbols, or a divisor of a symbol.

    None if they cannot be equal. A symbol becomes a number, or, if it has no declared range or that of the other size,
    an expression; of two symbols the second is replaced. Common factors are removed first: 8*A and 8*B are equal if A
    and B are.
    """
    if not all(isinstance(size, (int, Dim)) for size in (one, other)):
        return None
    if found := _multiples(one, other) or _uncut(one - other):
        return found
    difference = _primitive(one - other)
    alone = [symbol for symbol in map(lone_symbol, (other, one)) if symbol]
    for symbol in dict.fromkeys((*alone, *symbols_of([other, one]))):
        value = _value_at_zero(difference, symbol)
        if value is None:
            continue
        message = f"'{symbol.name}' and '{value}' must be one size"
        if not isinstance(value, Dim):
            if symbol.least <= value <= symbol.most:
                return NeedsLimit(message, symbol.name, Limit(least=value, most=value))
            continue
        same, (low, high) = lone_symbol(value), bounds(value)
        if low < 0 and len(value.symbols) > 1:
            continue  # whether it is a size depends on the run
        # A part of a size without a bound has none either: D of 4*D.
        unbounded = symbol.least <= low and MOST >> 16 < high <= symbol.most
        of_one_range = same and same.range_text == symbol.range_text
        if high > 0 and (not symbol.has_range or of_one_range or unbounded):
            return NeedsLimit(message, symbol.name, Limit(equal=value))
    return _all_terms_minimal(difference)


def _all_terms_minimal(value: Size) -> NeedsLimit | None:
    """Return what makes the first term of a sum the least that it can be, where the sum is 0 only for those of all."""
    if not isinstance(value, Dim) or 0 not in bounds(value):
        return None
    symbol = value.symbols[0]
    message = f"'{symbol.name}' must be {symbol.least}"
    return NeedsLimit(message, symbol.name, Limit(least=symbol.least, most=symbol.least))


def _primitive(value: Size) -> Size:
    """A sum without the factors that all its terms share, where those are not 0: A - B of 8*A*S - 8*B*S."""
    value = _without_factors(value, lambda atom: atom.least > 0)
    return factored(value)[1] if isinstance(value, Dim) else value


def _without_factors(value: Size, goes: Callable[[Atom], bool]) -> Size:
    """A sum without the symbols and quotients that all its terms share and that may go."""
    while isinstance(value, Dim):
        shared = set.intersection(*(set(monomial) for monomial in value.terms))
        atom = min(filter(goes, shared), default=None)
        if atom is None:
            break
        value = value // Dim({(atom,): 1})
    return value


def _value_at_zero(value: Size, symbol: Symbol) -> Size | None:
    """Return the value of a symbol at which an expression is 0, if the symbol occurs in exactly one term, by itself."""
    factor = value.terms.get((symbol,), 0) if isinstance(value, Dim) else 0
    rest = value - size(symbol) * factor
    if not factor or symbol in symbols_of([rest]):
        return None
    return -rest // factor if is_multiple(rest, factor) else None


def broadcast_sizes(*shapes: Sequence[Size]) -> tuple[Any, ...]:
    """Broadcast shapes like `np.broadcast_shapes`: two sizes on one axis, aligned right, are equal or one is 1.

    ValueError; NeedsLimit if two dynamic sizes can be one.
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
    """Return the divisors of floor divisions of a symbol in an expression."""
    atoms = {atom for monomial in getattr(value, "terms", ()) for atom in monomial}
    return [one.divisor for one in atoms if isinstance(one, Quotient) and symbol in one.symbols]
