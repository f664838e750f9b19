"""Derives the arguments of the Winograd template from a convolution and its epilogue ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ...tensor_ir import builder as t
from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Block, Buffer, Function, If, LoopKind
from ..ir.graph import GraphTensor
from ..ir.schedule import Schedule
from ..nest.convolution_geometry import ConvolutionGeometry
from ..ops.convolution import DirectConvolution
from ..ops.winograd import WinogradConvolution
from ..rewriting.kernel_group import KernelGroup
from ..schedule.context import LowerContext
from ..schedule.convolution_sizes import winograd_geometry, with_sizes_of
from ..schedule.direct_convolution import DirectSpace
from ..schedule.local_sizes import LocalSizes, localized
from ..schedule.matmul_problem import group_memory
from ..schedule.winograd import few_blocking, winograd_blocking
from ..schedule.winograd_direct import direct_group
from ..schedule.winograd_tile import WinogradBlocking, WinogradGemm
from ..templates.winograd import WinogradTemplate
from ..templates.winograd_tiles import Image, WinogradProblem
from .convolution import convolution_function
from .matmul import epilogue_names, epilogue_of
from .notes import group_note


def winograd_function(
    op: WinogradConvolution, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> Function:
    """A Winograd convolution and the elementwise ops after it; parameters: the inputs, each once, then the output."""
    (output,) = group.outputs
    memory = group_memory(group, op.inputs)
    g, x = winograd_geometry(op), op.inputs[0]
    blocking = winograd_blocking(schedule, op.form, ctx.target)
    epilogue, post = epilogue_of(op, output, memory), epilogue_names(op, group.ops)
    tile = f"{blocking.tile.rows}x{blocking.tile.columns(ctx.target)}"
    whole = with_sizes_of(g, op)
    kind_of = f"{x.details.dtype}_winograd_{op.form.name}"
    name = identifier(f"{kind_of}{post}_{whole}_{tile}__{ctx.target.isa}", 160)
    threads = ctx.options.threads
    is_shared = WinogradGemm(g, op.form, ctx.target, threads).cores > 1

    def made(own: WinogradBlocking, u: GraphTensor) -> Function:
        sizes = LocalSizes((whole.batch, *whole.image, *whole.result))
        problem = _problem(localized(whole, sizes), [memory[x], memory[u], memory[output]])
        tiles = WinogradGemm(whole, own.form, ctx.target).tiles
        kind: LoopKind = "parallel" if is_shared else "serial"
        template = WinogradTemplate(
            problem, own, ctx.target, kind, epilogue, tiles, sizes.lets, threads
        )
        return template.function(name, tuple(memory.values()), group_note(group, schedule))

    forms = [first := made(blocking, op.u)]
    for at, (form, few) in enumerate(zip(op.other_forms, op.few, strict=True), 2):
        if form is None:
            forms.append(_direct(op, at, group, ctx))
        else:
            forms.append(made(few_blocking(op, form, few, blocking, ctx), op.inputs[at]))
    pixels = t.as_expr(math.prod((whole.batch, *whole.result)))
    body = forms.pop().body  # the smaller locals last
    for few in reversed(op.few):
        body = Block((If(pixels > few, forms.pop().body, body),))
    return replace(first, body=body)


def _direct(op: WinogradConvolution, at: int, group: KernelGroup, ctx: LowerContext) -> Function:
    """The same function in the direct form, with input `at` as weights."""
    group = direct_group(op, at, group)
    conv = next(one for one in group.ops if isinstance(one, DirectConvolution))
    return convolution_function(conv, group, DirectSpace(conv, group, ctx).pick, ctx)


def _problem(g: ConvolutionGeometry, operands: Sequence[Buffer]) -> WinogradProblem:
    x, u, y = operands
    image, result = Image(x, *g.image, g.channels), Image(y, *g.result, g.outputs)
    return WinogradProblem(g.batch, image, u, result, *g.before, g.dilations)
