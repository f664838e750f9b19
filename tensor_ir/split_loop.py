"""Cuts a loop where an index changes its form, so that none of its parts has to ask.

before   for i in 0..58: y[i] = select(i - 1 >= 0 and i - 1 < 56, x[min(max(i - 1, 0), 55)], 0)
after    y[0] = 0;   for i in 1..57: y[i] = x[i - 1];   y[57] = 0
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..base.dtypes import S64
from .analysis import Affine, IndexAlgebra
from .nodes import Binary, Compare, Const, Expr, For, Stmt, Store
from .visitor import vars_in, walk, walk_statements

MAX_PARTS = 6
"""Parts of a loop; one whose index changes its form more often stays whole."""

_CROSSINGS = {"lt": (0,), "ge": (0,), "le": (1,), "gt": (1,), "eq": (0, 1), "ne": (0, 1)}
"""Thresholds of left - right that decide a comparison: at least 0, at least 1."""


def split_loop(loop: For) -> list[Stmt]:
    """The loop in parts between whose ends all comparisons of its variable with numbers have one result each.

    The loop itself where its bounds are not numbers, where it sums up, or where it would fall into too many parts.
    """
    begin, end = loop.begin, loop.end
    if not (isinstance(begin, Const) and isinstance(end, Const)) or _sums_up(loop):
        return [loop]
    ends = [*_starts(loop, int(begin.value), int(end.value)), int(end.value)]
    if not 2 < len(ends) <= MAX_PARTS + 1:
        return [loop]
    return [
        replace(loop, begin=Const(first, S64), end=Const(last, S64))
        for first, last in zip(ends, ends[1:], strict=False)
    ]


def _starts(loop: For, low: int, high: int) -> list[int]:
    """Return the starts of the parts of [low, high); parts are split further if that simplifies their indices."""
    cuts: set[int] = set()
    for either in sorted(_cuts(loop, low, high), key=len):
        inside = [cut for cut in either if low < cut < high]
        if len(inside) == len(either) and cuts.isdisjoint(inside):
            cuts.add(inside[0])
    if not cuts or len(cuts) >= MAX_PARTS:
        return [low]
    ends = [low, *sorted(cuts), high]
    return [start for part in zip(ends, ends[1:], strict=False) for start in _starts(loop, *part)]


def _sums_up(loop: For) -> bool:
    """Return whether several iterations store to one element."""
    name = loop.var.name
    stores = [s for s in walk_statements(loop.body) if isinstance(s, Store)]
    return any(all(name not in vars_in(i) for i in s.indices) for s in stores)


def _cuts(loop: For, low: int, high: int) -> Iterator[tuple[int, ...]]:
    """Values of the variable from which on some index has another form.

    Of a minimum, whose operands are equal at its edge, either of two values.
    """
    algebra, name = IndexAlgebra(), loop.var.name
    algebra.ranges[name] = low, high - 1
    for e in walk(loop.body):
        if not isinstance(e, Binary | Compare) or e.left.dtype != S64 or e.left.lanes != 1:
            continue
        if e.op in ("div", "mod"):
            yield from (
                (cut,) for cut in _multiples(_form(algebra, e.left, name), e.right, low, high)
            )
            continue
        form = _form(algebra, Binary("sub", e.left, e.right), name)
        if form and e.op in _CROSSINGS:
            yield from ((_crossing(*form, least),) for least in _CROSSINGS[e.op])
        elif form and e.op in ("min", "max"):
            yield tuple(_crossing(*form, least) for least in (0, 1))


def _multiples(form: tuple[int, int] | None, divisor: Expr, low: int, high: int) -> range:
    """Values in [low, high) at which variable + constant is a multiple of a divisor, unless they are many."""
    if not form or form[0] != 1 or not isinstance(divisor, Const) or divisor.value <= 0:
        return range(0)
    size = int(divisor.value)
    many = (high - low) // size >= MAX_PARTS
    return range(0) if many else range(-(-(low + form[1]) // size) * size - form[1], high, size)


def _form(algebra: IndexAlgebra, e: Expr, name: str) -> tuple[int, int] | None:
    """(c, d) if an expression is c * variable + d, c not 0."""
    form: Affine = algebra.affine(e)
    if form.terms.keys() != {name}:
        return None
    return form.terms[name][1], form.constant


def _crossing(factor: int, constant: int, least: int) -> int:
    """The variable from which on factor * variable + constant >= least, or no longer."""
    if factor > 0:
        return -((constant - least) // factor)
    return (constant - least) // -factor + 1
