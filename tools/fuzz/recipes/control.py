"""Choices and loops around subgraphs of other recipes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from ....base.dtypes import S64
from ....base.errors import UserError
from ....graph_ir.ir.graph import Graph, GraphTensor
from ....graph_ir.ir.logical_tensor import LogicalTensor
from ..scope import NUMBER, Scope
from . import contractions, elementwise, movement, reductions

_INNER = {
    **elementwise.RECIPES, **movement.RECIPES, **contractions.RECIPES, **reductions.RECIPES,
}  # fmt: skip


def _grow(scope: Scope) -> None:
    for _ in range(scope.random.randint(0, 3)):
        with suppress(UserError):
            _INNER[scope.random.choice(list(_INNER))](scope)


def case(scope: Scope) -> None:
    """One of several branches; the index may be outside."""
    inputs = [scope.any() for _ in range(scope.random.randint(1, 3))]
    index = scope.small_integers(S64, (), -1, 3)
    first = scope.subgraph(inputs, "branch0")
    _grow(first)
    results = scope.random.choices(first.tensors, k=scope.random.randint(1, 2))
    branches = [_finished(first, results)]
    for number in range(1, scope.random.randint(1, 3)):
        branch = scope.subgraph(inputs, f"branch{number}")
        _grow(branch)
        wanted = [t.details for t in results]
        branches.append(_finished(branch, [branch.like(d.dtype, d.plain_dims) for d in wanted]))
    scope.make("case", [index, *inputs], branches=tuple(branches))


def loop(scope: Scope) -> None:
    """A body that runs as often as an input says, up to five times."""
    state = [scope.any() for _ in range(scope.random.randint(1, 2))]
    rounds = scope.small_integers(S64, (), 0, 5)
    counter = scope.constant(np.asarray(0, np.int64), "start")
    inputs = [counter, *state, rounds]
    condition = scope.subgraph(inputs, "condition")
    i, *_, most = condition.tensors
    goes_on = condition.one("lt", i, most)
    body = scope.subgraph(inputs, "body")
    i, *values = body.tensors[:-1]
    _grow(body)
    results = [body.one("add", i, body.constant(np.asarray(1, np.int64), "one"))]
    results += [_last(body, x.details, x) for x in values]
    attrs = {"condition": _finished(condition, [goes_on]), "body": _finished(body, results)}
    scope.make("while", inputs, **attrs)


def check(scope: Scope) -> None:
    """A condition on a tensor, which mostly holds; a run where it does not ends with its message."""
    x = scope.any(NUMBER)
    most = float(scope.value(x).astype(np.float64).max(initial=0))
    limit = scope.number(x, most if scope.chance(0.7) else most - 1)
    within = scope.one("le", x, limit)
    message = f"condition {len(scope.conditions)} must hold"
    scope.conditions.append((scope.one("reduce_all", within), message))


def _last(scope: Scope, details: LogicalTensor, otherwise: GraphTensor) -> GraphTensor:
    found = [t for t in scope.tensors if t.details == details]
    return found[-1] if found else otherwise


def _finished(scope: Scope, results: Sequence[GraphTensor]) -> Graph:
    for tensor in results:
        scope.graph.make_output(tensor)
    scope.graph.sort()
    return scope.graph


RECIPES: dict[str, Callable[[Scope], None]] = {
    "case": case,
    "while": loop,
    "check of a run": check,
}
