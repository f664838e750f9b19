"""The passes over a graph, in order, read top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...base.dims import UndecidedSize
from ...base.on_demand import loaded
from ..ir.graph import Graph, replace_subgraphs
from ..ir.op import SIZE_REMEDY
from ..ir.verifier import verify
from ..rewriting.decisions import close_stage, log_of, start_log
from ..schedule.context import LowerContext
from ..schedule.user_code import PASSES
from ..text.printer import print_op
from .choose_schedules import check_requested

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


# (name of the pass and its file, or the pass, the switch of `options.SWITCHES` that turns it off, or "" if the program
# needs it)
_STEPS: tuple[tuple[str | Pass, str], ...] = (
    ("remove_dead", ""),
    ("fold_constants", "fold"),
    ("simplify_control", "simplify"),
    ("fold_constants", "fold"),  # constants computed in inlined branches and unrolled loops
    ("update_in_place", "in-place"),
    (optimize_subgraphs, ""),  # after constants have moved into them, and before memory is planned
    ("eliminate_common", "cse"),
    ("simplify_algebra", "simplify"),
    ("scale_queries", "simplify"),  # before matmuls read transposes, which scaling hides
    ("simplify_movement", "simplify"),
    ("fold_padding", "simplify"),
    ("eliminate_common", "cse"),  # patterns need equal parts to be merged
    ("recompose_user_patterns", "recompose"),  # those of user code run before and after graphc's
    ("recompose_activation", "recompose"),
    ("recompose_softmax", "recompose"),
    ("recompose_normalization", "recompose"),
    ("recompose_user_patterns", "recompose"),
    ("fold_batch_norm", "simplify"),
    ("split_concats", "simplify"),
    ("decompose_transposed", ""),
    ("round_operands", ""),  # at most one of these three: that of the precision requested
    ("share_rounded", "shared-rounding"),
    ("quantize_matmuls", ""),
    ("quantize_weights", ""),
    ("sink_dequantize", "quantized"),
    ("tabulate_bytes", "quantized"),
    ("multiply_quantized", "quantized"),
    ("pack_weights", "packed-weights"),
    ("round_activations", ""),
    ("dequantize_constants", "fold"),
    ("call_kernels", ""),  # ops as they were recognized
    ("sort_long_rows", "sort-rows"),
    ("mask_trees", "masked-trees"),
    ("decompose", ""),
    ("double_windows", "double-windows"),
    ("call_kernels", ""),  # and those that others were made of
    ("narrow_integer_matmuls", "simplify"),
    ("skip_padding", "simplify"),
    ("convolve_planes", "direct-convolution"),
    ("select_convolution_algorithm", ""),
    ("sum_bytes_in_floats", "float-sums"),
    ("divide_by_constants", "simplify"),  # after the patterns, which contain divisions
    ("matvec_to_reduction", "simplify"),
    ("merge_batches", "simplify"),
    ("defer_division", "simplify"),
    ("sink_transposes", "simplify"),
    ("sink_reshapes", ""),
    ("eliminate_common", "cse"),  # decompositions of equal composites are equal
    ("widen_weights", "wide-weights"),
    ("propagate_layouts", ""),
    ("pad_windows", ""),
    ("fold_constants", "fold"),  # prepacks weights: a reorder of a constant is a constant
    ("remove_dead", ""),
    ("materialize_outputs", ""),
    ("scale_sums_once", "joint-scales"),
    ("bound_quotients", "bounds"),
    ("repeat_widening", "quantized"),
    ("repeat_centering", "fuse"),
    ("fuse", "fuse"),
    ("keep_rounded", "quantized"),
    ("remove_dead", ""),
    ("choose_schedules", ""),
    ("plan_memory", ""),
)

PIPELINE: tuple[tuple[Pass, str], ...] = tuple(
    (loaded(f".{step}:{step}", __package__) if isinstance(step, str) else step, switch)
    for step, switch in _STEPS
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
