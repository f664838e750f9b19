"""Measures the schedules of the kernels of a model, each kernel alone: what `graphc tune` keeps."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType

from ..base.errors import UserError
from ..base.records import dataclass
from ..graph_ir.ir.graph import Graph, Op
from ..graph_ir.ir.schedule import Schedule
from ..graph_ir.lowering.lower_graph import kernel_bytes
from ..graph_ir.ops.convolution import DirectConvolution
from ..graph_ir.ops.matmul import MatmulCore
from ..graph_ir.ops.winograd import WinogradConvolution
from ..graph_ir.rewriting.kernel_group import group_of
from ..graph_ir.schedule.context import LowerContext
from ..graph_ir.schedule.matmul import panel_formats
from ..graph_ir.schedule.query_format import query_format
from ..graph_ir.schedule.space import ScheduleSpace
from .variant_program import Trial, try_variants
from .variants import Variant, kernel_variants, model_kernels, op_alone, op_variants

BATCH = 32  # variants compiled and timed together
STALE = 2
"""Batches without a gain after which others are not expected to bring one: they are predicted to be slower."""
GAIN = 0.01
"""Share of the time below which a difference is noise."""
CHOOSING = (MatmulCore, DirectConvolution, WinogradConvolution)
"""Ops that may run with panels of several widths."""


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
    """The kernels of a model that have several schedules worth measuring, the largest first."""
    kernels = model_kernels(graph, ctx)
    return [
        (op, space)
        for op, space in kernels
        if space.algorithm not in ("pointwise", "joined")
        if len(space.candidates) > 1
    ]


def tune_kernel(
    op: Op,
    space: ScheduleSpace,
    ctx: LowerContext,
    seconds: float,
    sizes: Mapping[str, int] = MappingProxyType({}),
) -> TunedKernel:
    """Time the compiler's choice, then others while time lasts, the best predicted first. Raise UserError if one is
    wrong.

    `sizes`: numbers for all dynamic dimensions, by name, at which a kernel for every size is timed.
    It stops when STALE batches have brought nothing. The best replaces the choice only if it is also faster where both
    are timed in turn, in one program.
    """
    deadline = time.monotonic() + seconds
    variants = _variants(op, ctx, sizes)
    variants.sort(key=lambda v: (not v.chosen, v.predicted or 0.0))
    trials: list[Trial] = []
    stale = 0
    while len(trials) < len(variants) and (
        not trials or (time.monotonic() < deadline and stale < STALE)
    ):
        before = min((trial.seconds or 0.0 for trial in trials), default=0.0)
        batch = try_variants(variants[len(trials) : len(trials) + BATCH], ctx)
        trials += batch
        gained = not before or min(trial.seconds or 0.0 for trial in batch) < before * (1 - GAIN)
        stale = 0 if gained else stale + 1
    wrong = next((trial for trial in trials if not trial.difference.ok), None)
    if wrong:
        raise UserError(
            f"kernel '{space.problem}' with {wrong.variant.schedule} is wrong: {wrong.difference}; do not tune it"
        )
    best, chosen = min(trials, key=lambda trial: trial.seconds or 0.0), trials[0]
    if best is not chosen:  # batches were timed apart, so that their times do not compare
        chosen, best = try_variants([chosen.variant, best.variant], ctx)
        if (best.seconds or 0.0) > (chosen.seconds or 0.0) * (1 - GAIN):
            best = chosen
    assert best.variant.schedule is not None
    timed = op_alone(op, sizes=sizes)
    work, unit = timed.get_gflop(), "GFLOP/s"
    if not work:
        work, unit = kernel_bytes(timed) / 1e9, "GB/s"
    before, after = (work / (trial.seconds or 1.0) for trial in (chosen, best))
    return TunedKernel(space.problem, len(trials), before, after, unit, best.variant.schedule)


def _variants(op: Op, ctx: LowerContext, sizes: Mapping[str, int]) -> list[Variant]:
    """Return schedules with other panel widths for ops that choose them; otherwise the kernel unchanged, with
    its epilogue."""
    body = [x for x in group_of(op).ops if isinstance(x, CHOOSING)]
    if len(body) != 1:
        return list(kernel_variants(op, ctx, swept=True, sizes=sizes))
    (main,) = body
    formats = [x.details.format for x in (*main.inputs, *main.outputs)]
    choices = panel_formats(main, ctx) if isinstance(main, MatmulCore) else query_format(main, ctx)
    # Layouts of computed operands are fixed by the neighboring ops, and so is whether weights lie in panels at all:
    # only choices that agree with both can be measured on this op alone.
    computed = [0, len(formats) - 1, *([] if _has_constant_weights(op, main) else [1])]
    suited = [
        choice
        for choice in choices
        if all([*choice.inputs, *choice.outputs][i] == formats[i] for i in computed)
        and choice.inputs[1].is_blocked == formats[1].is_blocked
    ]
    taken = [i for i, c in enumerate(suited) if [*c.inputs, *c.outputs] == formats]
    if not taken:  # the choice depends on constant weights, which the op alone does not have
        return list(kernel_variants(op, ctx, swept=True, sizes=sizes))
    return list(op_variants(main, ctx, taken[0], suited, swept=True, sizes=sizes))


def _has_constant_weights(op: Op, main: Op) -> bool:
    """Return whether the second operand of the main op of a kernel is packed at compile time."""
    inside = group_of(op).inputs
    weights = main.inputs[1]
    outside = op.inputs[inside.index(weights)] if weights in inside else weights
    return outside.is_constant
