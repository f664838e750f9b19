"""Bring windows into the forms that have fast loops: convolutions by template, padding of others stored once."""

from __future__ import annotations

from functools import partial

from ..context import LowerContext
from ..convolution_forms import padded, ranked_forms
from ..decisions import record
from ..graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.convolution import Convolution
from ..ops.pool import WindowReduce
from ..rewrite import Rule, rewrite


def lower_windows(graph: Graph, ctx: LowerContext) -> bool:
    """Give each convolution its fastest form, and store padding where loops would have to ask for it.

    %y = convolution(%x, %w, before=(1, 1), after=(1, 1))
    ->
    %p = patches(pad(%x)); %y = reshape(matmul_core(reshape(%w), reshape(%p)))     the form "patches"

    Requires: composites decomposed, plain layouts, topological order.
    Ensures: topological order; no window but that of a template is padded; f32 convolutions have the form that the
    cost model of `convolution_forms` foresees the fewest cycles for.
    """
    rules: dict[str, list[Rule]] = {"convolution": [partial(_best_form, ctx), _without_padding]}
    rules.update((f"{kind}_pool", [_without_padding]) for kind in ("max", "min", "sum", "prod"))
    return rewrite(graph, rules)


def _best_form(ctx: LowerContext, graph: Graph, op: Op) -> GraphTensor | None:
    assert isinstance(op, Convolution)
    ranked = ranked_forms(op, ctx)
    if not ranked:
        return None
    (form, cycles), *others = ranked
    result = form.build(Composer(graph, op), op)
    text = f"{form.name}, {cycles:.3g} cycles foreseen"
    for other, more in others:
        text += f"; {other.name} {more:.3g} ({more / cycles:.2f} times)"
    record(graph, "form", [op.name], [result.producer_owner.name], text)
    return result


def _without_padding(graph: Graph, op: Op) -> GraphTensor | None:
    if not isinstance(op, (Convolution, WindowReduce)) or not op.window.is_padded:
        return None
    fill = op.fill if isinstance(op, WindowReduce) else 0
    make = Composer(graph, op)
    stored = padded(make, op.inputs[0], op.window, fill)
    attrs = {**op.attrs, "before": None, "after": None, "ceil_mode": False}
    attrs = {name: value for name, value in attrs.items() if value not in (None, False)}
    return make(op.op_name, stored, *op.inputs[1:], **attrs)
