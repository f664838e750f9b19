"""`graphc.graph_pass`: a pass over graphs by user code, at a point of the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..base.errors import InternalError, UserError
from ..base.records import dataclass
from ..base.suggestion import suggestion
from ..graph_ir.ir.graph import Graph
from ..graph_ir.ir.verifier import verify
from ..graph_ir.passes.pipeline import LAST_POINT, PIPELINE
from ..graph_ir.schedule.context import LowerContext
from ..graph_ir.schedule.user_code import PASSES
from ..graph_ir.text.printer import print_op
from .blame import called, check_takes

Pass = TypeVar("Pass", bound=Callable[[Graph, LowerContext], bool])


def graph_pass(*, before: str = "", after: str = "", name: str = "") -> Callable[[Pass], Pass]:
    """Add a pass over the graph (decorator); it replaces a pass of the same name.

    The function `(graph, ctx) -> bool` changes a graph in place and returns whether it did. It also runs on the
    subgraphs of control flow. The graph is verified after it.

    Args:
        before: Run before the first run of this pass.
        after: Run after the last run of this pass.
        name: The name of the pass; default: that of the function.

    Raises:
        UserError: There is no such pass, or not exactly one of `before` and `after` is given.
    """
    anchor = before or after
    if bool(before) == bool(after):
        raise UserError(
            f"graph_pass: one of before= and after= must be given, got {'both' if anchor else 'none'}"
        )
    _check_point(anchor, is_before=bool(before))

    def add(function: Pass) -> Pass:
        own = name or getattr(function, "__name__", "graph_pass")
        if not own.isidentifier() or own in _own_names():
            raise UserError(
                f"graph_pass: its name must be that of a variable, and of no pass of graphc, got '{own}'"
            )
        check_takes(f"graph pass '{own}'", "it", function, ["graph", "ctx"])
        PASSES[own] = UserPass(own, anchor, bool(before), function)
        return function

    return add


def _own_names() -> list[str]:
    return [step.__name__ for step, _ in PIPELINE]


def _check_point(anchor: str, is_before: bool) -> None:
    known = _own_names()
    if anchor not in known:
        remedy = suggestion(anchor, known) or f"passes are {', '.join(dict.fromkeys(known))}"
        raise UserError(f"graph_pass: its point must be a pass of graphc, got '{anchor}'; {remedy}")
    end = known.index(LAST_POINT)
    if known.index(anchor) > end or (anchor == LAST_POINT and not is_before):
        side = "before" if is_before else "after"
        raise UserError(
            f"graph_pass: it must run before {LAST_POINT}, which needs the final ops, got {side} {anchor}"
        )


@dataclass(frozen=True)
class UserPass:
    """A pass in the form that the pipeline runs (`graph_ir.schedule.user_code.UserPass`)."""

    name: str
    anchor: str
    is_before: bool
    function: Callable[[Graph, LowerContext], Any]

    @property
    def __name__(self) -> str:
        """The pass's name, like that of a function."""
        return self.name

    def __call__(self, graph: Graph, ctx: LowerContext) -> bool:
        """Run it, and verify what it leaves. May raise UserError."""
        who, before = f"graph pass '{self.__name__}'", _interface(graph)
        changed = called(who, "it", self.function, graph, ctx)
        if not isinstance(changed, bool):
            raise UserError(
                f"{who}: it must return whether it changed graph '{graph.name}', got {changed!r}"
            )
        try:
            verify(graph, print_op)
        except InternalError as error:
            raise UserError(
                f"{who}: graph '{graph.name}' is invalid after it: {error}; fix the pass"
            ) from error
        found = _interface(graph)
        if found != before:
            raise UserError(
                f"{who}: inputs and outputs of graph '{graph.name}' must stay as they are, {before}, got {found}"
            )
        return changed


def _interface(graph: Graph) -> str:
    inputs = ", ".join(f"{op.name}: {op.outputs[0].details}" for op in graph.inputs)
    return f"({inputs}) -> ({', '.join(str(op.inputs[0].details) for op in graph.outputs)})"
