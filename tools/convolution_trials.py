"""Measures blockings of a model's convolutions, each kernel alone, for `graphc tune`."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ..base.errors import UserError
from ..graph_ir.ir.graph import Graph, Op
from ..graph_ir.ops.convolution_direct import DirectConvolution
from ..graph_ir.passes import pipeline
from ..graph_ir.schedule.context import LowerContext
from ..graph_ir.schedule.matmul_tile import MatmulBlocking
from ..graph_ir.schedule.problem import problem_of
from ..graph_ir.schedule.query_format import query_format
from .variant_program import Trial, try_variants
from .variants import Variant, op_variants

BATCH = 32  # variants compiled and timed together


@dataclass(frozen=True)
class TunedConvolution:
    """One measured problem: GFLOP/s of the compiler's choice, and the best of the `tried` blockings."""

    problem: str
    tried: int
    before: float
    after: float
    blocking: MatmulBlocking


def direct_convolutions(graph: Graph, ctx: LowerContext) -> list[DirectConvolution]:
    """The distinct direct convolutions of a compiled model, largest first."""
    work = graph.copy()
    pipeline.run(work, ctx)
    found = {problem_of(op): op for op in _all_ops(work) if isinstance(op, DirectConvolution)}
    return sorted(found.values(), key=lambda op: -op.get_gflop())


def tune_convolution(op: DirectConvolution, ctx: LowerContext, seconds: float) -> TunedConvolution:
    """Time the compiler's choice, then others while time lasts, predicted fastest first. UserError if one is wrong."""
    deadline = time.monotonic() + seconds
    formats = [x.details.format for x in (*op.inputs, *op.outputs)]
    choices = query_format(op, ctx)
    taken = next(i for i, c in enumerate(choices) if [*c.inputs, *c.outputs] == formats)
    # Convolutions in plain layouts run as matrix products, so their blockings have another meaning.
    variants = [v for v in op_variants(op, ctx, taken) if not _is_plain(v) or v.chosen]
    variants.sort(key=lambda v: (not v.chosen, v.predicted or 0.0))
    trials: list[Trial] = []
    while len(trials) < len(variants) and (not trials or time.monotonic() < deadline):
        trials += try_variants(variants[len(trials) : len(trials) + BATCH], ctx)
    wrong = next((trial for trial in trials if not trial.difference.ok), None)
    if wrong:
        raise UserError(
            f"kernel '{problem_of(op)}' with {wrong.variant.blocking} is wrong: {wrong.difference}"
        )
    best = min(trials, key=lambda trial: trial.seconds or 0.0)
    asked = best.variant.asked
    assert asked is not None
    before, after = (op.get_gflop() / (trial.seconds or 1.0) for trial in (trials[0], best))
    return TunedConvolution(problem_of(op), len(trials), before, after, asked)


def _is_plain(variant: Variant) -> bool:
    return variant.output.format.is_plain


def _all_ops(graph: Graph) -> list[Op]:
    inner = [op.attr("graph") for op in graph.ops if op.op_name == "fused"]
    return [*graph.ops, *(op for part in inner for op in part.ops)]
