"""The passes over a graph, in order, read top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...base.dims import UndecidedSize
from ..ir.graph import Graph, replace_subgraphs
from ..ir.op import SIZE_REMEDY
from ..ir.verifier import verify
from ..rewriting.decisions import close_stage, log_of, start_log
from ..schedule.context import LowerContext
from ..schedule.user_code import PASSES
from ..text.printer import print_op
from .bound_quotients import bound_quotients
from .call_kernels import call_kernels
from .choose_schedules import check_requested, choose_schedules
from .convolve_planes import convolve_planes
from .decompose import decompose
from .decompose_transposed import decompose_transposed
from .defer_division import defer_division
from .dequantize_constants import dequantize_constants
from .divide_by_constants import divide_by_constants
from .double_windows import double_windows
from .eliminate_common import eliminate_common
from .fold_batch_norm import fold_batch_norm
from .fold_constants import fold_constants
from .fold_padding import fold_padding
from .fuse import fuse
from .keep_rounded import keep_rounded
from .mask_trees import mask_trees
from .materialize_outputs import materialize_outputs
from .matvec_to_reduction import matvec_to_reduction
from .merge_batches import merge_batches
from .multiply_quantized import multiply_quantized
from .narrow_integer_matmuls import narrow_integer_matmuls
from .pack_weights import pack_weights
from .pad_windows import pad_windows
from .plan_memory import plan_memory
from .propagate_layouts import propagate_layouts
from .quantize_matmuls import quantize_matmuls
from .quantize_weights import quantize_weights
from .recompose_activation import recompose_activation
from .recompose_normalization import recompose_normalization
from .recompose_softmax import recompose_softmax
from .recompose_user_patterns import recompose_user_patterns
from .remove_dead import remove_dead
from .repeat_centering import repeat_centering
from .repeat_widening import repeat_widening
from .round_activations import round_activations
from .round_operands import round_operands
from .scale_queries import scale_queries
from .scale_sums_once import scale_sums_once
from .select_convolution_algorithm import select_convolution_algorithm
from .share_rounded import share_rounded
from .simplify_algebra import simplify_algebra
from .simplify_control import simplify_control
from .simplify_movement import simplify_movement
from .sink_dequantize import sink_dequantize
from .sink_reshapes import sink_reshapes
from .sink_transposes import sink_transposes
from .skip_padding import skip_padding
from .sort_long_rows import sort_long_rows
from .split_concats import split_concats
from .sum_bytes_in_floats import sum_bytes_in_floats
from .tabulate_bytes import tabulate_bytes
from .update_in_place import update_in_place
from .widen_weights import widen_weights

Pass = Callable[[Graph, LowerContext], bool]
OnStage = Callable[[int, str, Graph, bool], None]


def optimize_subgraphs(graph: Graph, ctx: LowerContext) -> bool:
    """Replace the subgraphs of control ops by optimized copies: every pass runs on each, innermost last."""
    control = [op for op in graph.ops if op.kind == "control"]
    for op in control:
        replace_subgraphs(op, lambda inner: _optimized(graph, inner, ctx))
    return bool(control)


def _optimized(outer: Graph, inner: Graph, ctx: LowerContext) -> Graph:
    made = inner.copy()
    made.sort()
    _run(made, ctx, None, None)
    for decision in log_of(made).decisions:
        log_of(outer).decisions.append(replace(decision, stage=log_of(outer).current[0]))
    return made


# (pass, the switch of `options.SWITCHES` that turns it off, or "" if the program needs it)
PIPELINE: tuple[tuple[Pass, str], ...] = (
    (remove_dead, ""),
    (fold_constants, "fold"),
    (simplify_control, "simplify"),
    (fold_constants, "fold"),  # constants computed in inlined branches and unrolled loops
    (update_in_place, "in-place"),
    (optimize_subgraphs, ""),  # after constants have moved into them, and before memory is planned
    (eliminate_common, "cse"),
    (simplify_algebra, "simplify"),
    (scale_queries, "simplify"),  # before matmuls read transposes, which scaling hides
    (simplify_movement, "simplify"),
    (fold_padding, "simplify"),
    (eliminate_common, "cse"),  # patterns need equal parts to be merged
    (
        recompose_user_patterns,
        "recompose",
    ),  # patterns of user code, before and after those of graphc
    (recompose_activation, "recompose"),
    (recompose_softmax, "recompose"),
    (recompose_normalization, "recompose"),
    (recompose_user_patterns, "recompose"),
    (fold_batch_norm, "simplify"),
    (split_concats, "simplify"),
    (decompose_transposed, ""),
    (round_operands, ""),  # at most one of these three: that of the precision requested
    (share_rounded, "shared-rounding"),
    (quantize_matmuls, ""),
    (quantize_weights, ""),
    (sink_dequantize, "quantized"),
    (tabulate_bytes, "quantized"),
    (multiply_quantized, "quantized"),
    (pack_weights, "packed-weights"),
    (round_activations, ""),
    (dequantize_constants, "fold"),
    (call_kernels, ""),  # ops as they were recognized
    (sort_long_rows, "sort-rows"),
    (mask_trees, "masked-trees"),
    (decompose, ""),
    (double_windows, "double-windows"),
    (call_kernels, ""),  # and those that others were made of
    (narrow_integer_matmuls, "simplify"),
    (skip_padding, "simplify"),
    (convolve_planes, "direct-convolution"),
    (select_convolution_algorithm, ""),
    (sum_bytes_in_floats, "float-sums"),
    (divide_by_constants, "simplify"),  # after the patterns, which contain divisions
    (matvec_to_reduction, "simplify"),
    (merge_batches, "simplify"),
    (defer_division, "simplify"),
    (sink_transposes, "simplify"),
    (sink_reshapes, ""),
    (eliminate_common, "cse"),  # decompositions of equal composites are equal
    (widen_weights, "wide-weights"),
    (propagate_layouts, ""),
    (pad_windows, ""),
    (fold_constants, "fold"),  # prepacks weights: a reorder of a constant is a constant
    (remove_dead, ""),
    (materialize_outputs, ""),
    (scale_sums_once, "joint-scales"),
    (bound_quotients, "bounds"),
    (repeat_widening, "quantized"),
    (repeat_centering, "fuse"),
    (fuse, "fuse"),
    (keep_rounded, "quantized"),
    (remove_dead, ""),
    (choose_schedules, ""),
    (plan_memory, ""),
)


LAST_POINT = "choose_schedules"
"""Passes of user code run before this one: schedules and addresses are of the final ops."""


def steps() -> tuple[tuple[Pass, str], ...]:
    """The pipeline with the passes of user code at their points, which no switch turns off."""
    if not PASSES:
        return PIPELINE
    own = [step.__name__ for step, _ in PIPELINE]
    last = {name: number for number, name in enumerate(own)}
    points: dict[int, list[tuple[Pass, str]]] = {}
    for added in PASSES.values():
        at = own.index(added.anchor) if added.is_before else last[added.anchor] + 1
        points.setdefault(at, []).append((added, ""))
    return tuple(
        step for at in range(len(own) + 1) for step in (*points.get(at, ()), *PIPELINE[at : at + 1])
    )


def run(
    graph: Graph, ctx: LowerContext, on_stage: OnStage | None = None, first: int | None = None
) -> None:
    """Run every enabled pass in place; `on_stage(number, name, graph, changed)` sees each stage.

    `first`: run only that many passes, to see where a graph goes wrong. The graph is verified after the first pass and
    after the last; if the options say so, after every one that changed it. Raise UserError if a schedule that was
    requested cannot be had.
    """
    graph.sort()  # a graph built by hand may have an output before other ops
    _run(graph, ctx, on_stage, first)
    if first is None:
        check_requested(graph, ctx)


def _undecided(graph: Graph, error: UndecidedSize) -> UndecidedSize:
    """The error of a pass that needs a size which is known only when the model runs."""
    if str(error).endswith(SIZE_REMEDY):
        return error
    return UndecidedSize(f"model '{graph.name}': {error}; {SIZE_REMEDY}")


def _run(graph: Graph, ctx: LowerContext, on_stage: OnStage | None, first: int | None) -> None:
    log, all_steps = start_log(graph), steps()
    for number, (step, switch) in enumerate(all_steps[:first], start=1):
        log.current = (number, step.__name__)
        enabled = not switch or ctx.options.enabled(switch)
        try:
            changed = step(graph, ctx) if enabled else False
        except UndecidedSize as error:
            raise _undecided(graph, error) from error
        stage = close_stage(graph, log, enabled, changed)
        is_other = changed or stage.before != stage.after
        if (ctx.options.verify and is_other) or number in (1, len(all_steps)):
            verify(graph, print_op)
        if on_stage:
            on_stage(number, step.__name__, graph, changed)
