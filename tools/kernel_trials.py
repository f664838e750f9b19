"""Measures the schedules of the kernels of a model, each kernel alone: what `graphc tune` keeps."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ..base.errors import UserError
from ..graph_ir.ir.graph import Graph, Op
from ..graph_ir.ir.schedule import Schedule
from ..graph_ir.lowering.lower_graph import kernel_bytes
from ..graph_ir.ops.convolution_direct import DirectConvolution
from ..graph_ir.ops.winograd import WinogradConvolution
from ..graph_ir.rewriting.kernel_group import group_of
from ..graph_ir.schedule.context import LowerContext
from ..graph_ir.schedule.query_format import query_format
from ..graph_ir.schedule.space import ScheduleSpace
from .variant_program import Trial, try_variants
from .variants import Variant, kernel_variants, model_kernels, op_variants

BATCH = 32  # variants compiled and timed together


@dataclass(frozen=True)
class TunedKernel:
    """One problem as measured: the rate of the compiler's choice and of the best schedule of `tried`, in `unit`."""

    problem: str
    tried: int
    before: float
    after: float
    unit: str
    schedule: Schedule


def tunable_kernels(graph: Graph, ctx: LowerContext) -> list[tuple[Op, ScheduleSpace]]:
    """The kernels of a model that have several schedules, but for matrix products; the largest first."""
    kernels = model_kernels(graph, ctx)
    return [
        (op, space)
        for op, space in kernels
        if space.algorithm not in ("gemm", "pointwise", "joined") or _is_transpose(op)
        if len(space.candidates) > 1
    ]


def tune_kernel(op: Op, space: ScheduleSpace, ctx: LowerContext, seconds: float) -> TunedKernel:
    """Time the compiler's choice, then others while time lasts, the best predicted first. UserError if one is wrong."""
    deadline = time.monotonic() + seconds
    variants = _variants(op, ctx)
    variants.sort(key=lambda v: (not v.chosen, v.predicted or 0.0))
    trials: list[Trial] = []
    while len(trials) < len(variants) and (not trials or time.monotonic() < deadline):
        trials += try_variants(variants[len(trials) : len(trials) + BATCH], ctx)
    wrong = next((trial for trial in trials if not trial.difference.ok), None)
    if wrong:
        raise UserError(
            f"kernel '{space.problem}' with {wrong.variant.schedule} is wrong: {wrong.difference}"
        )
    best = min(trials, key=lambda trial: trial.seconds or 0.0)
    assert best.variant.schedule is not None
    work, unit = op.get_gflop(), "GFLOP/s"
    if not work:
        work, unit = kernel_bytes(op) / 1e9, "GB/s"
    before, after = (work / (trial.seconds or 1.0) for trial in (trials[0], best))
    return TunedKernel(space.problem, len(trials), before, after, unit, best.variant.schedule)


def _variants(op: Op, ctx: LowerContext) -> list[Variant]:
    """Panels of other widths too for convolutions that choose them; else the kernel as it is, its epilogue with it."""
    body = group_of(op).ops
    conv = next((x for x in body if isinstance(x, (DirectConvolution, WinogradConvolution))), None)
    if conv is None:
        return list(kernel_variants(op, ctx))
    formats = [x.details.format for x in (*conv.inputs, *conv.outputs)]
    choices = query_format(conv, ctx)
    taken = next(i for i, c in enumerate(choices) if [*c.inputs, *c.outputs] == formats)
    # The layouts of images are the business of all ops around, and were not chosen for this one alone.
    image, result = formats[0], formats[-1]
    variants = op_variants(conv, ctx, taken)
    return [v for v in variants if (v.image, v.output.format) == (image, result)]


def _is_transpose(op: Op) -> bool:
    return any(inner.op_name == "transpose" for inner in group_of(op).ops)
