"""Recognize layer norm and RMS norm that exporters decomposed."""

from __future__ import annotations

from ..ir.graph import Graph, GraphTensor, Op
from ..ops.normalize import LayerNorm
from ..ops.reduce import Reduce
from ..rewriting.pattern import Build, Capture, Match, Pattern, Scalar, either, node, recipe
from ..rewriting.rewrite import Rule, rewrite
from ..schedule.context import LowerContext


def recompose_normalization(graph: Graph, ctx: LowerContext) -> bool:
    """Reassemble layer_norm and rms_norm over the last axes, with their scale and bias.

    %d = sub(%x, reduce_mean(%x)); %v = reduce_mean(pow(%d, 2)); %n = div(%d, sqrt(add(%v, 1e-5)));
    %y = add(mul(%n, %scale), %bias)
    ->
    %y = layer_norm(%x, %scale, %bias, epsilon=1e-5)

    Requires: topological order; common subexpressions merged.
    Ensures: topological order; none of the patterns below is left. Results may round differently.
    """
    return rewrite(graph, RULES)


def _divided_by_root(x: Pattern, square: Pattern) -> Pattern:
    """x / sqrt(mean(square) + epsilon), as exporters spell it."""
    mean = Capture("variance", node("reduce_mean", square))
    shifted = node("add", mean, Scalar(name="epsilon"))
    root = either(node("sqrt", shifted), node("pow", shifted, 0.5))
    inverse = either(
        node("rsqrt", shifted),
        node("pow", shifted, -0.5),
        node("reciprocal", root),
        node("div", 1, root),
    )
    return either(node("div", x, root), node("mul", x, inverse))


def _square(x: Pattern) -> Pattern:
    return either(node("square", x), node("pow", x, 2), node("mul", x, x))


_X = Capture("x")
_CENTERED = Capture("centered", node("sub", _X, Capture("mean", node("reduce_mean", _X))))
_LAYER_NORM = _divided_by_root(_CENTERED, _square(_CENTERED))
_RMS_NORM = _divided_by_root(_X, _square(_X))


def _make(op_name: str) -> Build:
    def build(graph: Graph, op: Op, found: Match) -> GraphTensor | None:
        reductions = [found[name].producer_owner for name in ("variance", "mean") if name in found]
        axes = {_last_axes(reduction) for reduction in reductions}
        if len(axes) != 1 or None in axes:
            return None
        attrs = {"axis": axes.pop(), "epsilon": found["epsilon"]}
        return graph.make(op_name, [found["x"]], attrs, f"{op.name}.{op_name}").outputs[0]

    return build


def _last_axes(op: Op) -> int | None:
    """The first reduced axis where that and all later axes are reduced and kept with size 1."""
    if not isinstance(op, Reduce) or not op.keep_dims or not op.axes:
        return None
    rank = op.inputs[0].details.rank
    return op.axes[0] if op.axes == tuple(range(op.axes[0], rank)) else None


def _take_parameter(graph: Graph, op: Op) -> GraphTensor | None:
    """layer_norm(x) * scale: layer_norm(x, scale); layer_norm(x, scale) + bias: layer_norm(x, scale, bias)."""
    for index in (0, 1):
        norm, parameter = op.inputs[index].producer_owner, op.inputs[1 - index]
        if not isinstance(norm, LayerNorm) or len(norm.outputs[0].uses) != 1:
            continue
        wanted = {"mul": 1, "add": 2}[op.op_name]
        if len(norm.inputs) != wanted or wanted >= len(norm.schema.operands):
            continue
        if _lies_in(parameter, norm) and norm.outputs[0].details == op.outputs[0].details:
            inputs = [*norm.inputs, parameter]
            return graph.make(
                norm.op_name, inputs, norm.attrs, f"{op.name}.{norm.op_name}"
            ).outputs[0]
    return None


def _lies_in(parameter: GraphTensor, norm: LayerNorm) -> bool:
    """Return whether a tensor varies only along the normalized axes, so that all rows of x share one row of it."""
    dims = parameter.details.plain_dims
    first = len(dims) - len(norm.axes)
    return all(size == 1 for size in dims[: max(first, 0)])


_TO_LAYER_NORM = recipe(_LAYER_NORM, _make("layer_norm"))
_TO_RMS_NORM = recipe(_RMS_NORM, _make("rms_norm"))

RULES: dict[str, tuple[Rule, ...]] = {
    "div": (_TO_LAYER_NORM, _TO_RMS_NORM),
    "mul": (_TO_LAYER_NORM, _TO_RMS_NORM, _take_parameter),
    "add": (_take_parameter,),
}
