"""Sizes that are known when a model runs: polynomials of named symbols with ranges, in normal form.

    N = Symbol("N", 1, 512)       a symbol and its range
    size(N) * 64 + 1              a `Dim`: an expression; numbers stay Python integers
    floor_quotient(size(N), 2)    N//2: what a stride leaves of a size

Equal expressions have one normal form, so `==` is exact; an expression never equals a number. The ranges decide `<`,
and `//` must have no remainder (`floor_quotient` and `ceil_quotient` drop it). What cannot be proved raises
`UndecidedSize`: code written for numbers either works for all sizes or says that it does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, total_ordering
from typing import Any, Union, cast

from . import polynomials
from .symbols import MOST as MOST
from .symbols import TYPICAL as TYPICAL
from .symbols import Limit as Limit
from .symbols import NeedsLimit as NeedsLimit
from .symbols import Symbol as Symbol
from .symbols import UndecidedOrder
from .symbols import UndecidedSize as UndecidedSize
from .unequal_sizes import record_unequal


@total_ordering
class Derived:
    """A function of sizes that is not a polynomial and never falls where an operand grows."""

    __slots__ = ("name", "operands")

    def __init__(self, name: str, *operands: Any) -> None:
        self.name, self.operands = name, operands

    def rule(self, *numbers: Any) -> int:
        """The function of numbers."""
        raise NotImplementedError

    def of(self, *operands: Any) -> Size:
        """The function of other sizes."""
        raise NotImplementedError

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols of the operands."""
        return symbols_of(self.operands)

    @property
    def least(self) -> int:
        """A number that it is at least."""
        return self.rule(*(bounds(operand)[0] for operand in self.operands))

    @property
    def most(self) -> int:
        """A number that it is at most."""
        return self.rule(*(bounds(operand)[1] for operand in self.operands))

    def value(self, values: Mapping[str, int]) -> int:
        """The atom's number for `values` of the symbols."""
        return self.rule(*(evaluate(operand, values) for operand in self.operands))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.operands == other.operands

    def __hash__(self) -> int:
        return hash((type(self), self.operands))

    @property
    def rank(self) -> tuple[int, str, int, int]:
        """The atom's rank among atoms: after all symbols."""
        return 1, self.name, self.least, self.most

    def __lt__(self, other: Any) -> bool:
        return self.rank < other.rank


class Quotient(Derived):
    """An expression divided by a number and rounded down, where that is not an expression: `(H+1)//2`."""

    __slots__ = ()

    def __init__(self, numerator: Dim, divisor: int) -> None:
        text = str(numerator)
        name = f"{text if text.isidentifier() else f'({text})'}//{divisor}"
        super().__init__(name, numerator, divisor)

    @property
    def numerator(self) -> Dim:
        """The expression."""
        return cast(Dim, self.operands[0])

    @property
    def divisor(self) -> int:
        """The number."""
        return cast(int, self.operands[1])

    def rule(self, *numbers: int) -> int:
        """Rounded down."""
        return numbers[0] // numbers[1]

    def of(self, *operands: Size) -> Size:
        """`floor_quotient` of another expression."""
        return floor_quotient(operands[0], self.divisor)


class Minimum(Derived):
    """The smaller of two sizes, where it depends on the run which that is: `min(5;T)`."""

    __slots__ = ()

    def __init__(self, one: Size, other: Size) -> None:
        super().__init__(f"min({one};{other})", one, other)

    def rule(self, *numbers: int) -> int:
        """The smaller."""
        return min(numbers)

    def of(self, *operands: Size) -> Size:
        """`minimum` of other sizes."""
        return minimum(*operands)


Atom = Union[Symbol, Derived]

Monomial = tuple[Atom, ...]
"""Atoms in order, each repeated as often as its power; () is 1."""


class Dim:
    """An expression of symbols that is not a number: a sum of monomials times integers."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms: dict[Monomial, int] = dict(sorted(terms.items(), key=polynomials.term_order))
        self._hash = hash(tuple(self.terms.items()))

    # equality and order

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim) and self.terms == other.terms:
            return True
        record_unequal(self, other)
        return False

    def __hash__(self) -> int:
        return self._hash

    def _order(self, other: object, holds: Callable[[int], bool], relation: str) -> bool:
        """Return whether `holds` of the sign of self - other, for all values of the symbols."""
        if not isinstance(other, (int, Dim)):
            return NotImplemented
        low, high = bounds(self - other)
        found = {holds(sign) for sign in (low, 0, high) if low <= sign <= high}
        if len(found) > 1:
            message = f"whether {self} {relation} {other} is not known at compile time"
            raise UndecidedOrder(message, self - other, holds)
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
        return _size(polynomials.multiply(self.terms, _terms(other)))

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
        """Raise TypeError: arithmetic with floats is undefined, because sizes are integers."""
        return self._number() if isinstance(other, float) else NotImplemented

    def _number(self, other: object = None) -> int:
        raise UndecidedSize(f"the size {self} must be a number at compile time")

    __index__ = __int__ = __float__ = __truediv__ = __rtruediv__ = _number

    # text and values

    def __str__(self) -> str:
        texts = []
        for monomial, factor in self.terms.items():
            is_monomial = len(monomial) > 1 or abs(factor) != 1
            parts = [_factor_text(atom, is_monomial) for atom in monomial]
            if abs(factor) != 1 or not parts:
                parts.insert(0, str(abs(factor)))
            sign = "-" if factor < 0 else "+"
            texts.append(sign + "*".join(parts))
        return "".join(texts).removeprefix("+")

    __repr__ = __str__  # messages show lists of sizes

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols of the expression, by name."""
        atoms = {atom for monomial in self.terms for atom in monomial}
        return tuple(sorted({symbol for atom in atoms for symbol in atom.symbols}))


Size = Union[int, Dim]


def size(symbol: Symbol) -> Size:
    """The size that a symbol names: a number if its range has one value."""
    return symbol.least if symbol.least == symbol.most else Dim({(symbol,): 1})


def is_known(*sizes: object) -> bool:
    """Return whether none of the sizes is an expression."""
    return not any(isinstance(one, Dim) for one in sizes)


def symbols_of(sizes: Iterable[object]) -> tuple[Symbol, ...]:
    """All symbols of the sizes, in order of appearance."""
    found = (symbol for one in sizes if isinstance(one, Dim) for symbol in one.symbols)
    return tuple(dict.fromkeys(found))


def bounds(value: Size) -> tuple[int, int]:
    """A range that contains every value, both ends inclusive."""
    return _bounds(value) if isinstance(value, Dim) else (value, value)


@lru_cache(1 << 12)
def _bounds(value: Dim) -> tuple[int, int]:
    low, high = _interval(value)
    shared = math.gcd(*(factor for monomial, factor in value.terms.items() if monomial))
    if shared > 1:  # what is a multiple of a positive size is at least that multiple of 1
        rest = value.terms.get((), 0)
        low, high = bounds(floor_quotient(value - rest, shared))
        return low * shared + rest, high * shared + rest
    for atom in (atom for atom in set.intersection(*map(set, value.terms)) if atom.least >= 0):
        ends = bounds(value // Dim({(atom,): 1}))  # what such a factor multiplies has the sign
        limits = [end * factor for end in ends for factor in (atom.least, atom.most)]
        low, high = max(low, min(limits)), min(high, max(limits))
    if any(len(monomial) > 1 for monomial in value.terms) and min(value.terms.values()) < 0:
        least, most = _interval(_from_least(value))
        low, high = max(low, least), min(high, most)
    for cut, factor in value.terms.items():
        if len(cut) == 1 and isinstance(cut[0], Minimum):  # an operand, and at most the other
            either = [bounds(value + (x - Dim({cut: 1})) * factor) for x in cut[0].operands]
            lows, highs = zip(*either, strict=True)
            low = max(low, (max if factor < 0 else min)(lows))
            high = min(high, (min if factor > 0 else max)(highs))
    quotients = _quotients(value)
    if quotients:  # num // d is (num - r) / d for a remainder r, which shows where symbols cancel
        scale = math.lcm(*(q.divisor for q, _ in quotients))
        exact: Size = _size(dict(_terms(value))) * scale
        least = most = 0
        for q, factor in quotients:
            share = factor * (scale // q.divisor)
            exact = exact + q.numerator * share - Dim({(q,): 1}) * (factor * scale)
            ends = 0, -share * (q.divisor - 1)
            least, most = least + min(ends), most + max(ends)
        ends = bounds(exact)
        low = max(low, -(-(ends[0] + least) // scale))
        high = min(high, (ends[1] + most) // scale)
    return low, high


def _from_least(value: Dim) -> Size:
    """Rewrite the value over atoms minus their minima: (H-2)*(W-2) from 3 on gets positive coefficients."""
    atoms = dict.fromkeys(atom for monomial in value.terms for atom in monomial)
    if any(atom.most - atom.least > MOST for atom in atoms):
        return value
    shifted = {
        atom: size(Symbol(f"above_{number}", 0, atom.most - atom.least)) + atom.least
        for number, atom in enumerate(atoms)
    }
    total: Size = 0
    for monomial, factor in value.terms.items():
        total = total + math.prod((shifted[atom] for atom in monomial), start=cast(Any, factor))
    return total


def _quotients(value: Size) -> list[tuple[Quotient, int]]:
    """The terms of an expression that are quotients, with their factors."""
    terms = ((monomial, factor) for monomial, factor in _terms(value).items() if len(monomial) == 1)
    return [(atom, factor) for (atom,), factor in terms if isinstance(atom, Quotient)]


def _interval(value: Size) -> tuple[int, int]:
    """A range that contains every value, from the ranges of its terms."""
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
    return sum(
        factor * math.prod(atom.value(values) for atom in monomial)
        for monomial, factor in _terms(value).items()
    )


def substitute(value: Size, sizes: Mapping[str, Size]) -> Size:
    """The expression with symbols replaced by sizes, by name; others stay."""
    if not isinstance(value, Dim):
        return value
    total: Size = 0
    for monomial, factor in value.terms.items():
        term: Size = factor
        for atom in monomial:
            if isinstance(atom, Derived):
                term = term * atom.of(*(substitute(operand, sizes) for operand in atom.operands))
            else:
                term = term * sizes.get(atom.name, Dim({(atom,): 1}))
        total = total + term
    return total


def floor_quotient(value: Size, divisor: int) -> Size:
    """value / divisor, rounded down, for a divisor from 1: what has no remainder is taken out of the quotient."""
    whole, rest = dict[Monomial, int](), dict[Monomial, int]()
    for monomial, factor in _terms(value).items():
        whole[monomial], rest[monomial] = divmod(factor, divisor)
    left, high = _size(rest), [m for m, factor in rest.items() if m and 2 * factor > divisor]
    if high and len(high) == sum(bool(m and factor) for m, factor in rest.items()):
        every = _size(dict.fromkeys(high, 1))  # 6*N // 7 is N less N / 7 rounded up
        return _size(whole) + every - ceil_quotient(every * divisor - left, divisor)
    return _size(whole) + (_rounded_down(left, divisor) if isinstance(left, Dim) else 0)


def minimum(one: Size, other: Size) -> Size:
    """The smaller of two sizes: an expression where that depends on the run."""
    low, high = bounds(one - other)
    if high <= 0 or low >= 0:
        return one if high <= 0 else other
    both = sorted((one, other), key=lambda each: (isinstance(each, Dim), str(each)))
    return Dim({(Minimum(*both),): 1})


def maximum(one: Size, other: Size) -> Size:
    """The larger of two sizes."""
    return one + other - minimum(one, other)


def ceil_quotient(value: Size, divisor: int) -> Size:
    """value / divisor, rounded up."""
    return floor_quotient(value + divisor - 1, divisor)


def _rounded_down(value: Dim, divisor: int) -> Size:
    """value / divisor of factors from 0 to divisor - 1: without common factors, and one quotient instead of two."""
    constant = value.terms.get((), 0)
    terms = {monomial: factor for monomial, factor in value.terms.items() if monomial}
    common = math.gcd(divisor, *terms.values())
    divisor, constant = divisor // common, constant // common
    rest = _size({monomial: factor // common for monomial, factor in terms.items()})
    if divisor == 1:
        return rest + constant
    ((atom,), *others) = [monomial if len(monomial) == 1 else (None,) for monomial in terms]
    if isinstance(atom, Quotient) and not others and rest == Dim({(atom,): 1}):
        return floor_quotient(atom.numerator + constant * atom.divisor, divisor * atom.divisor)
    return Dim({(Quotient(cast(Dim, rest + constant), divisor),): 1})


def _factor_text(atom: Atom, is_monomial: bool) -> str:
    return f"({atom.name})" if is_monomial and isinstance(atom, Quotient) else atom.name


def _terms(value: Size) -> Mapping[Monomial, int]:
    return value.terms if isinstance(value, Dim) else {(): value}


def _size(terms: Mapping[Monomial, int]) -> Size:
    kept = {monomial: factor for monomial, factor in terms.items() if factor}
    return Dim(kept) if any(kept) else kept.get((), 0)


def _quotient(a: Size, b: Size) -> Size:
    """a / b where that is an expression for all values; UndecidedSize where it is none."""
    found = {} if a == 0 else polynomials.quotient_of(_terms(a), _terms(b))
    if found is None:
        message = f"whether {b} divides {a} is not known at compile time"
        if needed := polynomials.divisor_needed(_terms(a), _terms(b)):
            raise NeedsLimit(message, needed[0], Limit(divisor=needed[1]))
        raise UndecidedSize(message)
    return _size(found)


def _sum(a: Size, b: Size, sign: int) -> Size:
    return _size(polynomials.sum_of(_terms(a), _terms(b), sign))
