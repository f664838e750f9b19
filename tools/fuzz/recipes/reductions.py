"""Reductions by their rows, and ops along one axis: running sums, softmax, arg_max, top_k."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ....base.errors import UserError
from ....graph_ir.ir.registry import lookup, names
from ....graph_ir.ops.reduce import Reduce
from ..scope import ANY, NUMBER, Scope

FLOAT = ("float",)


def some_axes(scope: Scope, rank: int) -> dict[str, Any]:
    """Attributes `axes` and `keep_dims`: all axes, none, the last, or any."""
    attrs: dict[str, Any] = {"keep_dims": True} if scope.chance(0.5) else {}
    kind = scope.random.random()
    if kind < 0.15:
        return attrs
    if kind < 0.5 and rank:
        return {"axes": (-1,), **attrs}
    axes = [axis for axis in range(rank) if scope.chance(0.5)]
    scope.random.shuffle(axes)
    return {"axes": tuple(a - rank if scope.chance(0.2) else a for a in axes), **attrs}


def one_axis(scope: Scope, rank: int) -> int:
    """An axis, counted from either end; raise UserError if there is none."""
    if not rank:
        raise UserError("a scalar has no axis")
    return scope.random.randint(-rank, rank - 1)


def reduction(scope: Scope, name: str, accepts: tuple[str, ...]) -> None:
    """One reduction over some axes."""
    x = scope.any(accepts)
    scope.make(name, [x], **some_axes(scope, x.details.rank))


def along(scope: Scope, name: str, kinds: tuple[str, ...], flags: tuple[str, ...] = ()) -> None:
    """One op that has an `axis` and bool attributes."""
    x = scope.any(kinds, 1)
    attrs: dict[str, Any] = {flag: True for flag in flags if scope.chance(0.4)}
    if scope.chance(0.8):
        attrs["axis"] = one_axis(scope, x.details.rank)
    scope.make(name, [x], **attrs)


def top_k(scope: Scope) -> None:
    """The first elements of an axis."""
    x = scope.any(ANY, 1)
    axis = one_axis(scope, x.details.rank)
    k = scope.random.randint(0, min(x.details.plain_dims[axis], 20))
    attrs: dict[str, Any] = {"largest": False} if scope.chance(0.4) else {}
    scope.make("top_k", [x], k=k, axis=axis, **attrs)


def _rows() -> dict[str, tuple[str, ...]]:
    classes = {name: lookup(name) for name in names()}
    return {n: c.row.accepts for n, c in classes.items() if issubclass(c, Reduce)}


RECIPES: dict[str, Callable[[Scope], None]] = {
    **{n: partial(reduction, name=n, accepts=kinds) for n, kinds in _rows().items()},
    "reduce_log_sum_exp": partial(reduction, name="reduce_log_sum_exp", accepts=FLOAT),
    "softmax": partial(along, name="softmax", kinds=FLOAT),
    "log_softmax": partial(along, name="log_softmax", kinds=FLOAT),
    "cum_sum": partial(along, name="cum_sum", kinds=NUMBER, flags=("exclusive", "reverse")),
    "cum_prod": partial(along, name="cum_prod", kinds=NUMBER, flags=("exclusive", "reverse")),
    "cum_max": partial(along, name="cum_max", kinds=NUMBER, flags=("exclusive", "reverse")),
    "cum_min": partial(along, name="cum_min", kinds=NUMBER, flags=("exclusive", "reverse")),
    "cum_log_sum_exp": partial(along, name="cum_log_sum_exp", kinds=FLOAT, flags=("reverse",)),
    "arg_max": partial(along, name="arg_max", kinds=ANY, flags=("keep_dims", "last")),
    "arg_min": partial(along, name="arg_min", kinds=ANY, flags=("keep_dims", "last")),
    "top_k": top_k,
}
