"""Recognize softmax and log_softmax that exporters decomposed."""

from __future__ import annotations

from ..ir.graph import Graph, GraphTensor, Op
from ..ops.reduce import Reduce
from ..ops.softmax import ReduceLogSumExp
from ..rewriting.pattern import Build, Capture, Match, either, node, recipe
from ..rewriting.rewrite import Rule, rewrite
from ..schedule.context import LowerContext


def recompose_softmax(graph: Graph, ctx: LowerContext) -> bool:
    """Reassemble softmax and log_softmax along one axis.

    %m = reduce_max(%x); %e = exp(sub(%x, %m)); %s = reduce_sum(%e); %y = div(%e, %s)
    ->
    %y = softmax(%x)

    Requires: topological order.
    Ensures: topological order; none of the patterns below is left. Results may round differently, and an exp whose
    largest input was not subtracted no longer overflows.
    """
    return rewrite(graph, RULES)


_X = Capture("x")
_SHIFTED = Capture("shifted", node("sub", _X, Capture("max", node("reduce_max", _X))))
_POWERS = Capture("powers", either(node("exp", _SHIFTED), node("exp", _X)))
_SUM = Capture("sum", node("reduce_sum", _POWERS))
_SOFTMAX = either(node("div", _POWERS, _SUM), node("mul", _POWERS, node("reciprocal", _SUM)))

_SUM_SHIFTED = Capture("sum", node("reduce_sum", node("exp", _SHIFTED)))
_LOG_SOFTMAX = either(
    node("sub", _SHIFTED, node("log", _SUM_SHIFTED)),
    node("sub", _X, Capture("sum", node("reduce_log_sum_exp", _X))),
)
_LOG_OF_SOFTMAX = node("log", Capture("softmax", node("softmax", _X)))


def _make(op_name: str) -> Build:
    def build(graph: Graph, op: Op, found: Match) -> GraphTensor | None:
        axes = {_axes(found[name].producer_owner) for name in ("max", "sum") if name in found}
        if len(axes) != 1:
            return None
        (only,) = axes
        if only is None or len(only) != 1:
            return None
        name = f"{op.name}.{op_name}"
        return graph.make(op_name, [found["x"]], {"axis": only[0]}, name).outputs[0]

    return build


def _axes(op: Op) -> tuple[int, ...] | None:
    """The axes a reduction keeps with size 1; None where it drops them."""
    if not isinstance(op, (Reduce, ReduceLogSumExp)) or not op.keep_dims:
        return None
    return op.axes


def _log_of_softmax(graph: Graph, op: Op, found: Match) -> GraphTensor | None:
    softmax: Op = found["softmax"].producer_owner
    name = f"{op.name}.log_softmax"
    return graph.make("log_softmax", [found["x"]], softmax.attrs, name).outputs[0]


_TO_SOFTMAX = recipe(_SOFTMAX, _make("softmax"))

RULES: dict[str, tuple[Rule, ...]] = {
    "div": (_TO_SOFTMAX,),
    "mul": (_TO_SOFTMAX,),
    "sub": (recipe(_LOG_SOFTMAX, _make("log_softmax")),),
    "log": (recipe(_LOG_OF_SOFTMAX, _log_of_softmax),),
}
