"""Sizes that are known when a model runs: polynomials of named symbols with ranges, in normal form.

    N = Symbol("N", 1, 512)       a symbol and its range
    size(N) * 64 + 1              a `Dim`: an expression; numbers stay Python integers

Equal expressions have one normal form, so `==` is exact for expressions; an expression never equals a number. An
order (`<`, `>=`, ...) is decided by the ranges, and a division must have no remainder: what cannot be proved raises
`UndecidedSize`, so that code written for numbers either works for all sizes or says that it does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import total_ordering
from typing import Any, TypeVar, Union

from .errors import UnsupportedError, UserError
from .records import dataclass

T = TypeVar("T")

MOST = (1 << 31) - 1
"""The greatest value of a symbol without a bound."""

TYPICAL = 64
"""The value of a symbol without a bound that cost models assume."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")


class UndecidedSize(UnsupportedError):
    """A decision depends on a size that is known when the model runs."""


class NeedsLimit(UndecidedSize):
    """A decision that is known if the size `name` is at most `most`: a model with that limit can be made."""

    def __init__(self, message: str, name: str, most: int) -> None:
        super().__init__(message)
        self.name, self.most = name, most


def within_limits(attempt: Callable[[Mapping[str, int]], T], limits: Mapping[str, int]) -> T:
    """What an attempt makes with the largest values of sizes, by name: `limits` and those that it finds to need."""
    while True:
        try:
            return attempt(limits)
        except NeedsLimit as needed:
            if limits.get(needed.name, needed.most + 1) <= needed.most:
                raise
            limits = {**limits, needed.name: needed.most}


@total_ordering
@dataclass(frozen=True)
class Symbol:
    """A named size from `least` to `most`, both inclusive. UserError for a name or range that cannot be one.

    0 is for the length of a cache; most programs depend on there being elements, and raise `UndecidedSize`.
    """

    name: str
    least: int = 1
    most: int = MOST

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UserError(
                f"a size must be named by letters, digits and _, at most 40, got '{self.name}'"
            )
        if not 0 <= self.least <= self.most <= MOST:
            raise UserError(
                f"size '{self.name}' must have a range from 0 to 2^31 - 1 that is not empty, "
                f"got {self.least}..{self.most}"
            )

    @property
    def range_text(self) -> str:
        """`1..64`, `1..` without an upper bound."""
        return f"{self.least}..{self.most if self.most < MOST else ''}"

    @property
    def has_range(self) -> bool:
        """Whether it is bounded."""
        return (self.least, self.most) != (1, MOST)

    @property
    def typical(self) -> int:
        """The value that cost models assume."""
        return min(max(self.least, TYPICAL), self.most)

    def __lt__(self, other: Symbol) -> bool:
        return (self.name, self.least, self.most) < (other.name, other.least, other.most)


Monomial = tuple[Symbol, ...]
"""A product of symbols in order, each as often as its power; () is 1."""


class Dim:
    """An expression of symbols that is no number: a sum of monomials times integers."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms: dict[Monomial, int] = dict(sorted(terms.items(), key=_place))
        self._hash = hash(tuple(self.terms.items()))

    # equality and order

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def _order(self, other: object, holds: Callable[[int], bool], relation: str) -> bool:
        """Whether `holds` of the sign of self - other, for all values of the symbols."""
        if not isinstance(other, (int, Dim)):
            return NotImplemented
        low, high = bounds(self - other)
        signs = [-1] * (low < 0) + [0] * (low <= 0 <= high) + [1] * (high > 0)
        found = {holds(sign) for sign in signs}
        if len(found) > 1:
            raise UndecidedSize(f"whether {self} {relation} {other} is not known when compiling")
        return found.pop()

    def __lt__(self, other: object) -> bool:
        return self._order(other, lambda sign: sign < 0, "<")

    def __le__(self, other: object) -> bool:
        return self._order(other, lambda sign: sign <= 0, "<=")

    def __gt__(self, other: object) -> bool:
        return self._order(other, lambda sign: sign > 0, ">")

    def __ge__(self, other: object) -> bool:
        return self._order(other, lambda sign: sign >= 0, ">=")

    def __bool__(self) -> bool:
        return self > 0 or self < 0

    # arithmetic

    def __add__(self, other: Any) -> Size:
        return _sum(self, other, 1) if isinstance(other, (int, Dim)) else self._no_number(other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Size:
        return _sum(self, other, -1) if isinstance(other, (int, Dim)) else self._no_number(other)

    def __rsub__(self, other: Any) -> Size:
        return _sum(-self, other, 1) if isinstance(other, (int, Dim)) else self._no_number(other)

    def __neg__(self) -> Size:
        return _size({monomial: -factor for monomial, factor in self.terms.items()})

    def __mul__(self, other: Any) -> Size:
        if not isinstance(other, (int, Dim)):
            return self._no_number(other)
        result: dict[Monomial, int] = {}
        for a, x in self.terms.items():
            for b, y in _terms(other).items():
                monomial = tuple(sorted((*a, *b)))
                result[monomial] = result.get(monomial, 0) + x * y
        return _size(result)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Size:
        if not isinstance(other, (int, Dim)):
            return NotImplemented
        return _quotient(self, other)

    def __rfloordiv__(self, other: Any) -> Size:
        return _quotient(other, self) if isinstance(other, int) else NotImplemented

    def __mod__(self, other: Any) -> int:
        if not isinstance(other, (int, Dim)):
            return NotImplemented
        _quotient(self, other)
        return 0

    def __rmod__(self, other: Any) -> int:
        if not isinstance(other, int):
            return NotImplemented
        _quotient(other, self)
        return 0

    def __divmod__(self, other: Any) -> tuple[Size, int]:
        return _quotient(self, other), 0

    def __rdivmod__(self, other: Any) -> tuple[Size, int]:
        return _quotient(other, self), 0

    def _no_number(self, other: object) -> Any:
        """What arithmetic with anything else gives: nothing with floats, as sizes are whole."""
        return self._number() if isinstance(other, float) else NotImplemented

    def _number(self) -> int:
        raise UndecidedSize(f"the size {self} must be a number when compiling")

    def __index__(self) -> int:
        return self._number()

    def __int__(self) -> int:
        return self._number()

    def __float__(self) -> float:
        return self._number()

    def __truediv__(self, other: Any) -> float:
        return self._number()

    def __rtruediv__(self, other: Any) -> float:
        return self._number()

    # text and values

    def __str__(self) -> str:
        texts = []
        for monomial, factor in self.terms.items():
            parts = [symbol.name for symbol in monomial]
            if abs(factor) != 1 or not parts:
                parts.insert(0, str(abs(factor)))
            sign = "-" if factor < 0 else "+"
            texts.append(sign + "*".join(parts))
        return "".join(texts).removeprefix("+")

    def __repr__(self) -> str:
        ranges = ", ".join(f"{symbol.name}={symbol.range_text}" for symbol in self.symbols)
        return f"<{self}: {ranges}>"

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols of the expression, by name."""
        return tuple(sorted({symbol for monomial in self.terms for symbol in monomial}))


Size = Union[int, Dim]


def size(symbol: Symbol) -> Size:
    """The size that a symbol names: a number if its range has one value."""
    return symbol.least if symbol.least == symbol.most else Dim({(symbol,): 1})


def lone_symbol(value: object) -> Symbol | None:
    """The symbol that a size is, if it is one."""
    if not isinstance(value, Dim) or len(value.symbols) != 1:
        return None
    (symbol,) = value.symbols
    return symbol if value.terms == {(symbol,): 1} else None


def limited(value: Size, limits: Mapping[str, int]) -> Size:
    """The expression with symbols, by name, that are at most the numbers of `limits`."""
    narrowed = {
        s.name: size(Symbol(s.name, s.least, min(s.most, limits[s.name])))
        for s in symbols_of([value])
        if s.name in limits
    }
    return substitute(value, narrowed)


def symbol_name(text: str) -> str:
    """A name for a symbol that resembles any text: letters, digits and _, at most 30."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", text)[:30].strip("_") or "size"
    return f"_{plain}" if plain[0].isdigit() else plain


def is_known(*sizes: object) -> bool:
    """Whether none of the sizes is an expression."""
    return not any(isinstance(one, Dim) for one in sizes)


def symbols_of(sizes: Iterable[object]) -> tuple[Symbol, ...]:
    """All symbols of the sizes, in order of appearance."""
    found = (symbol for one in sizes if isinstance(one, Dim) for symbol in one.symbols)
    return tuple(dict.fromkeys(found))


def bounds(value: Size) -> tuple[int, int]:
    """A range that contains every value, both ends inclusive."""
    low = high = 0
    for monomial, factor in _terms(value).items():
        least = most = factor
        for symbol in monomial:
            ends = symbol.least, symbol.most
            least, most = (least * ends[0], most * ends[1]) if factor > 0 else (
                least * ends[1], most * ends[0],
            )  # fmt: skip
        low, high = low + min(least, most), high + max(least, most)
    return low, high


def evaluate(value: Size, values: Mapping[str, int]) -> int:
    """The number for `values` of the symbols by name."""
    total = 0
    for monomial, factor in _terms(value).items():
        for symbol in monomial:
            factor *= values[symbol.name]
        total += factor
    return total


def factored(value: Size) -> tuple[int, Size]:
    """(number, rest) whose product is the value: the greatest number that divides every term."""
    if not isinstance(value, Dim):
        return value, 1
    common = math.gcd(*value.terms.values())
    return common, _size({monomial: factor // common for monomial, factor in value.terms.items()})


def substitute(value: Size, sizes: Mapping[str, Size]) -> Size:
    """The expression with symbols replaced by sizes, by name; others stay."""
    if not isinstance(value, Dim):
        return value
    total: Size = 0
    for monomial, factor in value.terms.items():
        term: Size = factor
        for symbol in monomial:
            term = term * sizes.get(symbol.name, Dim({(symbol,): 1}))
        total = total + term
    return total


def is_multiple(value: Size, divisor: Size) -> bool:
    """Whether it is known that `divisor` divides the value: for what is done only where that is so."""
    try:
        return not value % divisor
    except UndecidedSize:
        return False


def typical(value: Size) -> int:
    """The number that cost models assume: never a reason for what a program means."""
    if not isinstance(value, Dim):
        return value
    return evaluate(value, {symbol.name: symbol.typical for symbol in value.symbols})


def typically_less(a: Size, b: Size) -> bool:
    """Whether a < b, of expressions for typical values: where it matters to speed alone."""
    return a != b and typical(a) < typical(b)


def typical_all(values: Sequence[Size]) -> tuple[int, ...]:
    """`typical` of each."""
    return tuple(map(typical, values))


def broadcast_sizes(*shapes: Sequence[Size]) -> tuple[Any, ...]:
    """As `np.broadcast_shapes`: of two sizes on one axis, aligned right, both are equal or one is 1. ValueError."""
    rank = max(map(len, shapes), default=0)
    result: list[Size] = [1] * rank
    for shape in shapes:
        for axis, one in enumerate(shape, rank - len(shape)):
            if result[axis] == 1:
                result[axis] = one
            elif one not in (1, result[axis]):
                raise ValueError(f"{result[axis]} and {one}")
    return tuple(result)


def parse_range(text: str, name: str) -> Symbol:
    """The symbol `name` with the range `1..64`, `8..` or `..64`. UserError."""
    least, dots, most = text.partition("..")
    if not dots or not all(re.fullmatch(r"[0-9]{0,10}", end) for end in (least, most)):
        raise UserError(f"the range of size '{name}' must be like 1..64, got '{text}'")
    return Symbol(name, int(least or 1), int(most or MOST))


def parse_size(text: str, symbols: Mapping[str, Symbol]) -> Size:
    """Read `64`, `N`, `2*N+1`, `B*S-S` back; KeyError for an unknown symbol, ValueError for another text."""
    total: Size = 0
    terms = re.findall(r"[+-]?[^+-]+", text.replace(" ", ""))
    if not terms or "".join(terms) != text.replace(" ", ""):
        raise ValueError(text)
    for term in terms:
        value: Size = -1 if term.startswith("-") else 1
        for part in term.lstrip("+-").split("*"):
            if part.isascii() and part.isdigit() and len(part) <= 18:
                value = value * int(part)
            elif _NAME.fullmatch(part):
                value = value * size(symbols[part])
            else:
                raise ValueError(text)
        total = total + value
    return total


def _place(term: tuple[Monomial, int]) -> tuple[int, Monomial]:
    """Higher degrees first, the constant last."""
    return -len(term[0]), term[0]


def _terms(value: Size) -> Mapping[Monomial, int]:
    return value.terms if isinstance(value, Dim) else {(): value}


def _size(terms: Mapping[Monomial, int]) -> Size:
    kept = {monomial: factor for monomial, factor in terms.items() if factor}
    return Dim(kept) if any(kept) else kept.get((), 0)


def _sum(a: Size, b: Size, sign: int) -> Size:
    result = dict(_terms(a))
    for monomial, factor in _terms(b).items():
        result[monomial] = result.get(monomial, 0) + sign * factor
    return _size(result)


def _quotient(a: Size, b: Size) -> Size:
    """a / b where that is an expression for all values; UndecidedSize where it is none."""
    if a == 0:
        return 0
    divisor, dividend = dict(_terms(b)), dict(_terms(a))
    result: dict[Monomial, int] = {}
    leading, factor = min(divisor.items(), key=_place)
    while dividend:
        monomial, count = min(dividend.items(), key=_place)
        rest = _without(monomial, leading)
        if rest is None or count % factor:
            raise UndecidedSize(f"whether {b} divides {a} is not known when compiling")
        result[rest] = count // factor
        for other, times in divisor.items():
            product = tuple(sorted((*rest, *other)))
            left = dividend.get(product, 0) - result[rest] * times
            dividend[product] = left
            if not left:
                del dividend[product]
    return _size(result)


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """What is left of a product without some of its factors; None if they are not all in it."""
    left = list(monomial)
    for symbol in part:
        if symbol not in left:
            return None
        left.remove(symbol)
    return tuple(left)
