"""Random graphs from a seed: the same graph and inputs in every process."""

from __future__ import annotations

from contextlib import suppress
from functools import cache

from ...base.errors import UserError
from ...graph_ir.ir.graph import Array, Graph
from .plan import EVERYTHING, Plan
from .recipes import RECIPES, WEIGHTS
from .scope import Scope


def random_graph(seed: str, plan: Plan = EVERYTHING) -> tuple[Graph, list[Array]]:
    """A graph whose every op matters to a result, and an array for each input."""
    scope = Scope(plan, seed)
    names, weights = _recipes(plan.ops)
    wanted = scope.random.choices(
        range(1, plan.max_ops + 1), [1 / n for n in range(1, plan.max_ops + 1)]
    )[0]
    for _ in range(wanted):
        with suppress(UserError):  # what does not fit is left out
            RECIPES[scope.random.choices(names, weights)[0]](scope)
    return _finished(scope)


@cache
def _recipes(ops: frozenset[str] | None) -> tuple[tuple[str, ...], tuple[float, ...]]:
    names = tuple(name for name in RECIPES if ops is None or name in ops)
    return names, tuple(WEIGHTS[name] for name in names)


def _finished(scope: Scope) -> tuple[Graph, list[Array]]:
    """Outputs for what nothing reads, now and then for more; then conditions. Inputs that nothing reads are gone."""
    graph = scope.graph
    made = [op for op in graph.ops if op.kind != "source"]
    if not made:
        # Tensors of recipes that failed may be too large for any op.
        x = scope.input(scope.dtype(), scope.dims())
        made = [scope.one("copy", x).producer_owner]
    unread = [y for op in made for y in op.outputs if not y.uses]
    for tensor in unread:
        graph.make_output(tensor, f"y{len(graph.outputs)}")
    if scope.chance(0.2):
        graph.make_output(scope.random.choice(scope.tensors), f"y{len(graph.outputs)}")
    for condition, message in scope.conditions:
        graph.make_check(condition, message)
    kept = [bool(op.outputs[0].uses) for op in graph.inputs]
    arrays = [array for array, keep in zip(scope.arrays, kept, strict=True) if keep]
    graph.remove([op for op in graph.ops if op.kind == "source" and not op.outputs[0].uses])
    graph.sort()
    return graph, arrays
