"""The direct form of a Winograd convolution, which runs for few results where sizes are dynamic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...base.dtypes import F32
from ..ir.format import Format, channels_last
from ..ir.graph import Graph
from ..ir.logical_tensor import LogicalTensor
from ..ops.convolution import DirectConvolution
from ..ops.winograd import WinogradConvolution
from ..rewriting.kernel_group import KernelGroup
from .context import LowerContext
from .convolution_sizes import few_geometry
from .direct_convolution import convolution_formats


def direct_format(op: WinogradConvolution, few: int, w: LogicalTensor, ctx: LowerContext) -> Format:
    """The layout of the weights that is best for `few` pixels of images channels last."""
    images = few_geometry(op, few).batch
    graph, x = Graph("direct"), op.x.details
    sized = replace(x, plain_dims=(images, *x.plain_dims[1:]))
    operands = [graph.make_input(one) for one in (sized, w)]
    conv = graph.make("direct_convolution", operands, _window(op)).outputs[0].producer_owner
    assert isinstance(conv, DirectConvolution)
    offered = convolution_formats(conv, ctx)
    return next(c.inputs[1] for c in offered if c.inputs[0] == channels_last(4))


def direct_group(op: WinogradConvolution, at: int, group: KernelGroup) -> KernelGroup:
    """A group of the same inputs and results whose convolution has the direct form, with input `at` as weights."""
    graph = Graph("direct")
    known = {x: graph.make_input(x.details) for x in group.inputs}
    for one in group.ops:
        name, inputs, attrs = one.op_name, one.inputs, one.attrs
        if one is op:
            name, inputs, attrs = "direct_convolution", [op.x, op.inputs[at]], _window(op)
        made = graph.make(name, [known[x] for x in inputs], attrs)
        for old, new in zip(one.outputs, made.outputs, strict=True):
            new.details = old.details
            known[old] = new
    ops = tuple(one for one in graph.ops if one.kind != "source")
    return KernelGroup(
        ops, *(tuple(known[x] for x in some) for some in (group.inputs, group.outputs))
    )


def _window(op: WinogradConvolution) -> dict[str, Any]:
    window = {"dilations": op.dilations, "before": op.before, "after": op.after}
    return window if op.form.sums == F32 else {**window, "dtype": op.form.sums}
