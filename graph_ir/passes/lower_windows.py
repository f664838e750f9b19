"""Bring convolutions into the forms that have fast loops: a template for each, the padding of others stored once."""

from __future__ import annotations

from functools import partial

from ..ir.graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.convolution import Convolution
from ..rewriting.decisions import record
from ..rewriting.rewrite import rewrite
from ..schedule.context import LowerContext
from ..schedule.convolution_forms import padded, ranked_forms


def lower_windows(graph: Graph, ctx: LowerContext) -> bool:
    """Give each convolution its fastest form, and store padding where loops would have to ask for it.

    %y = convolution(%x, %w, before=(1, 1), after=(1, 1))
    ->
    %p = patches(pad(%x)); %y = reshape(matmul_core(reshape(%w), reshape(%p)))     the form "patches"

    Requires: composites decomposed, plain layouts, topological order.
    Ensures: topological order; no convolution but that of a template is padded; f32 convolutions have the form that the
    cost model of `convolution_forms` foresees the fewest cycles for.
    """
    return rewrite(graph, {"convolution": [partial(_best_form, ctx), _without_padding]})


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
    if not isinstance(op, Convolution) or not op.window.is_padded:
        return None
    make = Composer(graph, op)
    stored = padded(make, op.inputs[0], op.window, 0)
    attrs = {**op.attrs, "before": None, "after": None}
    attrs = {name: value for name, value in attrs.items() if value is not None}
    return make(op.op_name, stored, *op.inputs[1:], **attrs)
