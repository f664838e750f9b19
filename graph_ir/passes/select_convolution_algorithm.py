"""Choose the algorithm of each convolution: direct, depthwise, Winograd, or im2col with a matmul."""

from __future__ import annotations

from functools import partial

from ...base.dtypes import BF16, F16, F32
from ..ir.graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.convolution import Convolution
from ..ops.window import padded
from ..rewriting.decisions import record
from ..rewriting.rewrite import rewrite
from ..rewriting.values import constant_value
from ..schedule.context import LowerContext
from ..schedule.convolution_forms import ranked_forms, requested_forms
from ..schedule.forms_by_size import FormsBySize, forms_by_size
from ..schedule.integer_gain import best_form_cycles


def select_convolution_algorithm(graph: Graph, ctx: LowerContext) -> bool:
    """Rewrite each convolution to the form predicted to be fastest; materialize padding where no template handles it.

    %y = convolution(%x, %w, before=(1, 1), after=(1, 1))
    ->
    %p = im2col(pad(%x)); %y = reshape(matmul_core(reshape(%w), reshape(%p)))     the form "im2col"

    Requires: composites decomposed, plain layouts, topological order.
    Ensures: topological order; only convolutions that have a template are still padded; each convolution of floats, and
    of bytes with s32 sums, has the form that was requested, else the one with the fewest predicted cycles
    (`convolution_forms`), 16-bit floats in f32 where that is faster. Raise UserError if the one requested cannot run
    it.
    """
    return rewrite(graph, {"convolution": [partial(_best_form, ctx), _without_padding]})


def _best_form(ctx: LowerContext, graph: Graph, op: Convolution) -> GraphTensor | None:
    requested = requested_forms(op, ctx)
    if requested is None and (widened := _widened(ctx, graph, op)) is not None:
        return widened
    ranked = ranked_forms(op, ctx) if requested is None else requested
    if not ranked:
        return None
    if requested is None:
        forms = forms_by_size(op, ctx)
        if forms.few:
            return _of_dynamic_sizes(graph, op, forms)
        ranked.sort(key=lambda pair: pair[0] is not forms.forms[0])
    (form, cycles), *others = ranked
    result = form.build(Composer(graph, op), op)
    text = f"{form.name}{'' if requested is None else ', requested'}, {cycles:.3g} predicted cycles"
    for other, more in others:
        text += f"; {other.name} {more:.3g} ({more / cycles:.2f} times)"
    record(graph, "form", [op.name], [result.producer_owner.name], text)
    return result


def _of_dynamic_sizes(graph: Graph, op: Convolution, forms: FormsBySize) -> GraphTensor:
    """A Winograd convolution, with the weights of other forms for fewer results where these are better for them."""
    make = Composer(graph, op)
    many, *others = (form.build(make, op).producer_owner for form in forms.forms)
    attrs = {**many.attrs, "few": forms.few}
    weights = [other.inputs[1] for other in others]
    result = make("winograd_convolution", *many.inputs, *weights, **attrs)
    text = forms.forms[0].name
    for form, few in zip(forms.forms[1:], forms.few, strict=True):
        text += f"; {form.name} for up to {few} pixels of results"
    record(graph, "form", [op.name], [result.producer_owner.name], text)
    return result


def _widened(ctx: LowerContext, graph: Graph, op: Convolution) -> GraphTensor | None:
    """A convolution of 16-bit floats in f32, where a form that has no other type gains more than the casts cost."""
    x, w = op.inputs
    dtype, weights = x.details.dtype, constant_value(w)
    if dtype not in (F16, BF16) or weights is None:
        return None
    moved = (
        x.details.typical.elements
        * (dtype.size + F32.size)
        / ctx.target.machine.copy_bytes_per_cycle
    )
    narrow, wide = (best_form_cycles(op, t, t, ctx) for t in (dtype, F32))
    if wide + moved >= narrow:
        return None
    make = Composer(graph, op)
    attrs = {key: value for key, value in op.attrs.items() if key != "dtype"}
    y = make("convolution", make.to(x, F32), make.constant(weights.astype(F32.numpy)), **attrs)
    why = f"in f32, {wide:.3g} predicted cycles; {dtype} {narrow:.3g} ({narrow / wide:.2f} times)"
    record(graph, "form", [op.name], [y.producer_owner.name], why)
    return make.to(y, op.outputs[0].details.dtype)


def _without_padding(graph: Graph, op: Op) -> GraphTensor | None:
    if not isinstance(op, Convolution) or not op.window.is_padded:
        return None
    make = Composer(graph, op)
    stored = padded(make, op.inputs[0], op.window, 0)
    attrs = {key: value for key, value in op.attrs.items() if key not in ("before", "after")}
    return make(op.op_name, stored, *op.inputs[1:], **attrs)
