"""A tuned schedule replaces the compiler's choice only if it is faster where both are timed in turn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphc.base.options import CompileOptions
from graphc.codegen.host import target_for
from graphc.frontend import load
from graphc.graph_ir.schedule.context import LowerContext
from graphc.lab.read import read_problem
from graphc.tools import kernel_trials
from graphc.tools.kernel_trials import GAIN, tunable_kernels, tune_kernel


@pytest.mark.parametrize(("again", "is_kept"), [(0.5, True), (1 - GAIN / 2, False), (2.0, False)])
def test_the_best_must_win_twice(
    again: float, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times are made up: the last variant of the first batch seems to be ten times as fast."""
    ctx = LowerContext(target_for("native"), CompileOptions(1))
    op, space = tunable_kernels(load(read_problem("matmul m9n40k24").model), ctx)[0]
    run, calls = kernel_trials.try_variants, []

    def trials(variants: object, ctx: LowerContext) -> object:
        calls.append(len(variants))  # type: ignore[arg-type]
        found = run(variants[:2], ctx)  # type: ignore[index]
        times = (1.0, again) if len(calls) > 1 else (1.0, 0.1)
        return [replace(one, seconds=time) for one, time in zip(found, times, strict=True)]

    monkeypatch.setattr(kernel_trials, "try_variants", trials)
    monkeypatch.setattr(kernel_trials, "BATCH", 2)
    tuned = tune_kernel(op, space, ctx, 0.0)
    assert calls == [2, 2]
    assert (tuned.after > tuned.before) == is_kept


def test_it_stops_when_nothing_is_gained(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = LowerContext(target_for("native"), CompileOptions(1))
    op, space = tunable_kernels(load(read_problem("matmul m9n40k24").model), ctx)[0]
    run = kernel_trials.try_variants
    monkeypatch.setattr(
        kernel_trials,
        "try_variants",
        lambda variants, ctx: [replace(one, seconds=1.0) for one in run(variants, ctx)],
    )
    monkeypatch.setattr(kernel_trials, "BATCH", 2)
    tuned = tune_kernel(op, space, ctx, 1e9)
    assert tuned.tried == 2 * (1 + kernel_trials.STALE) and tuned.after == tuned.before
