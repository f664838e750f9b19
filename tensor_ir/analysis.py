"""Index arithmetic in normal form: constant + sum of coefficient * atom, with known ranges of all variables.

An atom is opaque to the form: a variable, a load, or a `div`, `mod`, `min`, `max` or `mul` that cannot be simplified.
`IndexAlgebra` converts s64 expressions to this form and back; on the way it simplifies what the ranges decide:

    (i * 16 + j) // 16 -> i      (i * 16 + j) % 16 -> j       for 0 <= j < 16
    x // 4 // 8 -> x // 32       x // 8 * 8 + x % 8 -> x      min(i, 127) -> i for i < 128
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import TypeVar

from ..base.dtypes import S64
from ..base.records import dataclass
from .builder import S64_MAX, S64_MIN, SIZE_PREFIX, wrap_s64
from .nodes import Binary, Broadcast, Cast, Const, Expr, For, Load, Select, Var

T = TypeVar("T")

Range = tuple[int, int]
"""Least and greatest value, both inclusive."""

FULL: Range = (S64_MIN, S64_MAX)
INDEX_OPS = frozenset(("add", "sub", "mul", "div", "mod", "min", "max"))
SIZES: Range = (0, (1 << 31) - 1)
"""Range of a parameter that is a size (`nodes`): the size of an empty cache is 0."""


@dataclass(slots=True)
class Affine:
    """constant + sum of coefficient * atom; `terms` maps the key of an atom to (atom, coefficient not 0)."""

    terms: dict[Hashable, tuple[Expr, int]]
    constant: int = 0

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """self + factor * other."""
        terms = dict(self.terms)
        for key, (atom, coefficient) in other.terms.items():
            total = coefficient * factor + (terms[key][1] if key in terms else 0)
            if total:
                terms[key] = (atom, total)
            else:
                terms.pop(key, None)
        return Affine(terms, self.constant + factor * other.constant)

    def times(self, factor: int) -> Affine:
        """factor * self."""
        return Affine({}).plus(self, factor) if factor else Affine({})

    @property
    def as_constant(self) -> int | None:
        """The value, if no atom is left."""
        return None if self.terms else self.constant


def integer_literal(e: Expr) -> int | None:
    """The value of an integer literal in one or all lanes."""
    if isinstance(e, Broadcast):
        e = e.operand
    return int(e.value) if isinstance(e, Const) and not e.dtype.is_float else None


def key_of(e: Expr) -> Hashable:
    """A key equal for equal expressions, cheap to build and to hash."""
    if type(e) is Var:
        return e.name
    if type(e) is Const:
        return e.value, e.dtype.name
    if type(e) is Binary:
        return e.op, key_of(e.left), key_of(e.right)
    if type(e) is Load and e.lanes == 1:
        return "load", e.buffer.name, *map(key_of, e.indices)
    if type(e) is Cast:
        return e.dtype.name, key_of(e.operand)
    return e


class _Facts(dict[str, T]):
    """Facts about variables by name; `derived` ones are forgotten where one of them changes."""

    def __init__(self, derived: dict[Hashable, Range]) -> None:
        super().__init__()
        self.derived = derived

    def __setitem__(self, name: str, fact: T) -> None:
        if self.get(name) != fact:
            self.derived.clear()
        super().__setitem__(name, fact)

    def clear(self) -> None:
        """Forget all facts, and what follows from them."""
        self.derived.clear()
        super().clear()


class IndexAlgebra:
    """s64 scalar arithmetic under known ranges of variables.

    `rewrite_atom` is applied to what is inside of atoms that are not index arithmetic (the indices of a load).
    """

    def __init__(self, rewrite_atom: Callable[[Expr], Expr] | None = None) -> None:
        self._atom_ranges: dict[Hashable, Range] = {}
        self.ranges: dict[str, Range] = _Facts(self._atom_ranges)
        self.values: dict[str, Expr] = _Facts(self._atom_ranges)
        self._rewrite_atom = rewrite_atom or (lambda e: e)

    def simplify(self, e: Expr) -> Expr:
        """`e` in normal form; the same object if it was."""
        new = self.expr(self.affine(e))
        return e if new == e else new

    def constant(self, e: Expr) -> int | None:
        """The value of `e` when it is the same for all values of the variables."""
        return self.affine(e).as_constant

    def difference(self, a: Expr, b: Expr) -> Range:
        """Least and greatest value of a - b as integers; everything where a or b could wrap."""
        left, right = self.affine(a), self.affine(b)
        return (
            self.range(left.plus(right, -1)) if self._exact(left) and self._exact(right) else FULL
        )

    def trips(self, loop: For) -> int | None:
        """Return the trip count of a loop if it is constant."""
        low, high = self.difference(loop.end, loop.begin)
        if high <= 0:
            return 0
        return -(-low // loop.step) if low == high else None

    def is_multiple(self, e: Expr, divisor: int) -> bool:
        """Return whether `e` is provably a multiple of a positive number."""
        form = self.affine(e)
        return form.constant % divisor == 0 and all(
            coefficient % divisor == 0 or self._is_multiple_atom(atom, divisor)
            for atom, coefficient in form.terms.values()
        )

    def _is_multiple_atom(self, e: Expr, divisor: int) -> bool:
        if type(e) is not Binary:
            return False
        if e.op in ("min", "max"):
            return self.is_multiple(e.left, divisor) and self.is_multiple(e.right, divisor)
        return e.op == "mul" and (
            self.is_multiple(e.left, divisor) or self.is_multiple(e.right, divisor)
        )

    # to the normal form

    def affine(self, e: Expr) -> Affine:
        """The normal form of an s64 scalar. Variables in `values` are replaced by their values."""
        if type(e) is Const:
            return Affine({}, int(e.value))
        if type(e) is Var:
            value = self.values.get(e.name)
            return Affine({e.name: (e, 1)}) if value is None else self.affine(value)
        if type(e) is Binary and e.op in INDEX_OPS:
            return self._binary(e.op, self.affine(e.left), self.affine(e.right))
        return self._atom(self._rewrite_atom(e))

    def _atom(self, e: Expr) -> Affine:
        return Affine({}, int(e.value)) if type(e) is Const else Affine({key_of(e): (e, 1)})

    def _binary(self, op: str, a: Affine, b: Affine) -> Affine:
        if op == "add":
            return self._recombined(a.plus(b))
        if op == "sub":
            return self._recombined(a.plus(b, -1))
        if op == "mul":
            if not b.terms:
                return a.times(b.constant)
            if not a.terms:
                return b.times(a.constant)
            return self._opaque(op, a, b)
        if op in ("min", "max"):
            return self._extreme(op, a, b)
        divisor = b.as_constant
        if divisor is None or divisor <= 0:
            return self._constant_division(op, a, b)
        return self._quotient(a, divisor) if op == "div" else self._remainder(a, divisor)

    def _opaque(self, op: str, a: Affine, b: Affine) -> Affine:
        return self._atom(Binary(op, self.expr(a), self.expr(b)))

    def _constant_division(self, op: str, a: Affine, b: Affine) -> Affine:
        dividend, divisor = a.as_constant, b.as_constant
        if divisor == 0:
            return Affine({})
        if dividend is None or divisor is None:
            return self._opaque(op, a, b)
        return Affine({}, wrap_s64(dividend // divisor) if op == "div" else dividend % divisor)

    def _extreme(self, op: str, a: Affine, b: Affine) -> Affine:
        if self._exact(a) and self._exact(b):
            low, high = self.range(a.plus(b, -1))
            if high <= 0:
                return a if op == "min" else b
            if low >= 0:
                return b if op == "min" else a
        return self._opaque(op, a, b)

    def _split(self, a: Affine, divisor: int) -> tuple[Affine, Affine] | None:
        """(quotient, rest) with a = divisor * quotient + rest exactly, or None where that could wrap."""
        if not self._exact(a):
            return None
        quotient: dict[Hashable, tuple[Expr, int]] = {}
        rest: dict[Hashable, tuple[Expr, int]] = {}
        for key, (atom, coefficient) in a.terms.items():
            if coefficient % divisor:
                rest[key] = (atom, coefficient)
            else:
                quotient[key] = (atom, coefficient // divisor)
        remaining = Affine(rest, a.constant % divisor)
        return (
            (Affine(quotient, a.constant // divisor), remaining) if self._exact(remaining) else None
        )

    def _quotient(self, a: Affine, divisor: int) -> Affine:
        split = self._split(a, divisor)
        if split is None:
            return self._opaque("div", a, Affine({}, divisor))
        quotient, rest = split
        low, high = self.range(rest)
        if low // divisor == high // divisor:
            return quotient.plus(Affine({}, low // divisor))
        common = math.gcd(divisor, *(coefficient for _, coefficient in rest.terms.values()))
        if common > 1:
            return quotient.plus(self._quotient(_divided(rest, common), divisor // common))
        inner = _only_atom(rest, "div")
        if inner is not None:
            return quotient.plus(self._quotient(self.affine(inner[0]), divisor * inner[1]))
        return quotient.plus(self._opaque("div", rest, Affine({}, divisor)))

    def _remainder(self, a: Affine, divisor: int) -> Affine:
        split = self._split(a, divisor)
        if split is None:
            return self._opaque("mod", a, Affine({}, divisor))
        rest = split[1]
        low, high = self.range(rest)
        if low // divisor == high // divisor:
            return rest.plus(Affine({}, -(low // divisor) * divisor))
        common = math.gcd(divisor, *(coefficient for _, coefficient in rest.terms.values()))
        if common > 1:
            outer = self._remainder(_divided(rest, common), divisor // common)
            return outer.times(common).plus(Affine({}, rest.constant % common))
        inner = _only_atom(rest, "mod")
        if inner is not None and inner[1] % divisor == 0:
            return self._remainder(self.affine(inner[0]), divisor)
        return self._opaque("mod", rest, Affine({}, divisor))

    def _recombined(self, a: Affine) -> Affine:
        """x // d * d + x % d becomes x."""
        for key, (atom, coefficient) in a.terms.items():
            if (
                type(atom) is Binary
                and atom.op == "mod"
                and type(atom.right) is Const
                and atom.right.value > 0
            ):
                quotient_key = ("div", *key[1:])  # type: ignore[index]
                found = a.terms.get(quotient_key)
                if found is not None and found[1] == coefficient * atom.right.value:
                    rest = {k: term for k, term in a.terms.items() if k not in (key, quotient_key)}
                    return self._recombined(
                        Affine(rest, a.constant).plus(self.affine(atom.left), coefficient)
                    )
        return a

    # from the normal form

    def expr(self, a: Affine) -> Expr:
        """The normal form as an expression: atoms in order of appearance, then the constant."""
        result: Expr | None = None
        for atom, coefficient in sorted(a.terms.values(), key=lambda term: term[1] < 0):
            wrapped = wrap_s64(coefficient)
            size = abs(wrapped)
            term = atom if size == 1 else Binary("mul", atom, Const(wrap_s64(size), S64))
            if result is None:
                result = term if wrapped > 0 else Binary("mul", atom, Const(wrapped, S64))
            else:
                result = Binary("add" if wrapped > 0 else "sub", result, term)
        constant = wrap_s64(a.constant)
        if result is None:
            return Const(constant, S64)
        if constant == 0:
            return result
        sign, size = ("sub", -constant) if S64_MIN < constant < 0 else ("add", constant)
        return Binary(sign, result, Const(size, S64))

    # ranges

    def bind_loop(self, loop: For) -> None:
        """Note the range of a loop's variable."""
        low, high = self.range_of(loop.begin)[0], self.range_of(loop.end)[1] - 1
        if type(loop.begin) is Const and high >= low:
            high = low + (high - low) // loop.step * loop.step
        self.ranges[loop.var.name] = (low, max(low, high))

    def range_of(self, e: Expr) -> Range:
        """Least and greatest value of an s64 scalar."""
        return self.range(self.affine(e))

    def range(self, a: Affine) -> Range:
        """Least and greatest value of the exact sum; everything where it could wrap."""
        low, high = self._exact_range(a)
        return (low, high) if low >= S64_MIN and high <= S64_MAX else FULL

    def _exact(self, a: Affine) -> bool:
        low, high = self._exact_range(a)
        return low >= S64_MIN and high <= S64_MAX

    def _exact_range(self, a: Affine) -> Range:
        low = high = a.constant
        known = (
            self._atom_ranges
        )  # without it, each of nested atoms would be analyzed again and again
        for key, (atom, coefficient) in a.terms.items():
            found = known.get(key)
            if found is None:
                found = known[key] = self._atom_range(atom)
            least, greatest = found
            low += coefficient * (least if coefficient > 0 else greatest)
            high += coefficient * (greatest if coefficient > 0 else least)
        return low, high

    def _atom_range(self, e: Expr) -> Range:
        if type(e) is Var:
            found = self.ranges.get(e.name)
            return found or (SIZES if e.name.startswith(SIZE_PREFIX) else FULL)
        if type(e) is Binary:
            return self._binary_range(e)
        if type(e) is Select:
            (a, b), (c, d) = self.range_of(e.then), self.range_of(e.otherwise)
            return min(a, c), max(b, d)
        if type(e) is Cast and e.operand.dtype.kind in ("int", "uint", "bool"):
            source = e.operand.dtype
            return source.limits if source.kind == "int" or source.bits < 64 else FULL
        return FULL

    def _binary_range(self, e: Binary) -> Range:
        if e.op not in ("div", "mod", "min", "max", "and", "mul"):
            return FULL
        (a, b), (c, d) = self.range_of(e.left), self.range_of(e.right)
        if e.op == "mul":
            return (a * c, b * d) if a >= 0 and c >= 0 and b * d <= S64_MAX else FULL
        if e.op == "div" and c == d > 0:
            return a // c, b // c
        if e.op == "mod" and c > 0:
            return (0, min(b, d - 1)) if a >= 0 else (0, d - 1)
        if e.op == "min":
            return min(a, c), min(b, d)
        if e.op == "max":
            return max(a, c), max(b, d)
        return (0, d) if e.op == "and" and c >= 0 else FULL


def _divided(a: Affine, common: int) -> Affine:
    """a / common rounded down; every coefficient is a multiple."""
    terms = {key: (atom, coefficient // common) for key, (atom, coefficient) in a.terms.items()}
    return Affine(terms, a.constant // common)


def _only_atom(a: Affine, op: str) -> tuple[Expr, int] | None:
    """(x, d) if a is exactly `x op d`, for a positive constant d."""
    if a.constant or len(a.terms) != 1:
        return None
    ((atom, coefficient),) = a.terms.values()
    if (
        coefficient != 1
        or type(atom) is not Binary
        or atom.op != op
        or type(atom.right) is not Const
    ):
        return None
    divisor = int(atom.right.value)
    return (atom.left, divisor) if divisor > 0 else None
