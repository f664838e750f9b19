"""Materialize the padding of pools that have no template, so that their loops read memory in order."""

from __future__ import annotations

from functools import partial

from ..ir.graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.pool import WindowReduce
from ..ops.window import padded
from ..rewriting.rewrite import rewrite
from ..schedule.channel_windows import pools_in_place
from ..schedule.context import LowerContext


def pad_windows(graph: Graph, ctx: LowerContext) -> bool:
    """Give padded pools an input that contains the padding, unless a template of windows runs them.

    %y = max_pool(%x, kernel=(3, 3), before=(1, 1), after=(1, 1))
    ->
    %p = pad(%x, value=-inf); %y = max_pool(%p, kernel=(3, 3))

    Requires: layouts chosen, topological order.
    Ensures: topological order; a padded pool is of floats, channels last or plain.
    """
    kinds = ("max", "min", "sum", "prod")
    return rewrite(graph, {f"{kind}_pool": [partial(_without_padding, ctx)] for kind in kinds})


def _without_padding(ctx: LowerContext, graph: Graph, op: Op) -> GraphTensor | None:
    if not isinstance(op, WindowReduce) or not op.window.is_padded:
        return None
    if pools_in_place(op, ctx):
        return None
    make, x = Composer(graph, op), op.inputs[0]
    stored = padded(make, x, op.window, op.fill)
    stored.details = stored.details.with_format(x.details.format)
    gone = ("before", "after", "ceil_mode")
    attrs = {key: value for key, value in op.attrs.items() if key not in gone}
    attrs["kernel"] = op.window.kernel  # one of ceil_mode may be larger than the padded input
    result = make(op.op_name, stored, **attrs)
    result.details = op.outputs[0].details
    return result
