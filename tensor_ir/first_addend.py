"""The first addend of an epilogue: accumulators can start with it, which saves the addition."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from .nodes import Binary, Expr, Let, Var
from .visitor import walk


class Addend(NamedTuple):
    """`value`, computed by `lets`, is what the sum starts with; `rest` are the bindings of the epilogue without it."""

    value: Expr
    lets: tuple[Let, ...]
    rest: tuple[Let, ...]


def first_addend(
    lets: Sequence[Let], value: Expr, acc: Var, varying: Collection[str]
) -> Addend | None:
    """The addend of an epilogue of `acc`, whose result is `value`.

    None where the first thing is not an addition, where the sum is read again, or where the addend depends on one of
    the variables in `varying`, in which sums that start together differ. Only exact sums may start with what is added
    last.
    """
    at = next((number for number, let in enumerate(lets) if acc.name in _read(let.value)), None)
    if at is None:
        return None
    total = lets[at].value
    if not isinstance(total, Binary) or total.op != "add" or acc not in (total.left, total.right):
        return None
    other = total.right if total.left == acc else total.left
    later = (*(let.value for let in lets[at + 1 :]), value)
    if any(acc.name in _read(expr) for expr in (other, *later)):
        return None
    needed, names = [], _read(other)
    for let in reversed(lets[:at]):
        if let.var.name in names:
            needed.append(let)
            names |= _read(let.value)
    if names & set(varying):
        return None
    rest = (*lets[:at], Let(lets[at].var, acc), *lets[at + 1 :])
    return Addend(other, tuple(reversed(needed)), rest)


def _read(expr: Expr) -> set[str]:
    return {node.name for node in walk(expr) if isinstance(node, Var)}
