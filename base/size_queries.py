"""Questions about sizes: their only symbol, their greatest factor, the number that cost models assume."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from .dims import Dim, Size, Symbol, UndecidedSize, bounds, evaluate, size, symbols_of


def lone_symbol(value: object) -> Symbol | None:
    """The symbol that a size is, if it is one."""
    if not isinstance(value, Dim) or len(value.symbols) != 1:
        return None
    (symbol,) = value.symbols
    return symbol if value.terms == {(symbol,): 1} else None


def solved(value: Size, number: int) -> tuple[Symbol, int] | None:
    """The only symbol of a size that is a multiple of it plus a number, and its value where the size is `number`.

    None for another size, or where there is no such value.
    """
    symbols = symbols_of([value])
    if len(symbols) != 1 or not isinstance(value, Dim):
        return None
    factor, constant = value.terms.get(symbols, 0), value.terms.get((), 0)
    if not factor or value != size(symbols[0]) * factor + constant or (number - constant) % factor:
        return None
    return symbols[0], (number - constant) // factor


def factored(value: Size) -> tuple[int, Size]:
    """Return (number, rest) with number * rest == value; `number` is the greatest common divisor of all terms."""
    if not isinstance(value, Dim):
        return value, 1
    common = math.gcd(*value.terms.values())
    return common, value // common


def is_multiple(value: Size, divisor: Size) -> bool:
    """Return whether it is known that `divisor` divides the value: for what is done only where that is so."""
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
    """Return whether a < b, of expressions for typical values: where it matters to speed alone."""
    return a != b and typical(a) < typical(b)


def typical_all(values: Sequence[Size]) -> tuple[int, ...]:
    """`typical` of each."""
    return tuple(map(typical, values))


def may_exceed(value: Size, limit: Size) -> bool:
    """Return whether a size can be more than another, for some values of their symbols."""
    return bounds(value - limit)[1] > 0


def sizes_text(sizes: Iterable[Size]) -> str:
    """Return sizes as a message shows them, `[2, N+1]`: without the ranges that `repr` gives."""
    return f"[{', '.join(map(str, sizes))}]"
