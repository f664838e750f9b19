"""`graphc tune`: measure the schedules of the kernels of a model, keep the best for `compile`."""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .model_arguments import add_compile_arguments, compile_options, read_model
from .progress import progress
from .terminal import say

if TYPE_CHECKING:
    from ..bench.kernels import Trial

NAME = "tune"
HELP = "Measure the schedules of a model's kernels, keep the best for `compile`."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_compile_arguments(parser)
    parser.add_argument("--seconds", type=float, default=60.0, help="time budget (default 60)")
    parser.add_argument(
        "--db", metavar="FILE", help="tuning file (default: GRAPHC_TUNING, or the user's cache)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Tune every distinct product, then every other kernel, the largest first, until the time is up."""
    from ..bench.kernels import default_schedule, parse_problem
    from ..bench.measure import pin_to
    from ..codegen.host import target_for
    from ..driver.tuning import TuningFile, default_file
    from ..graph_ir.schedule.context import LowerContext
    from ..tools.kernel_trials import tunable_kernels, tune_kernel

    options, target = compile_options(args), target_for(args.target)
    graph, _ = read_model(args)
    problems = [parse_problem(text) for text in _problems(graph)]
    problems.sort(key=lambda problem: -problem.gflop)
    ctx = LowerContext(target, options)
    kernels = tunable_kernels(graph, ctx)
    store = TuningFile(Path(args.db) if args.db else default_file(), target, options.threads)
    allowed = os.sched_getaffinity(0)
    pin_to(options.threads)
    rows: list[dict[str, Any]] = []
    deadline = time.monotonic() + args.seconds
    try:
        with progress(args.quiet or args.json) as report:
            total = len(problems) + len(kernels)
            report("tune", 0, total)
            for done, problem in enumerate(problems):
                share = (deadline - time.monotonic()) / (total - done)
                chosen = default_schedule(problem, target, options.threads)
                trials = _trials(problem, chosen, target, options.threads, share)
                best = max(trials, key=lambda trial: trial.gflops)
                store.write(str(problem), best.schedule, best.gflops)
                rows.append(_row(problem, trials, best))
                report("tune", done + 1, total)
            for done, (op, space) in enumerate(kernels, start=len(problems)):
                share = (deadline - time.monotonic()) / (total - done)
                found = tune_kernel(op, space, ctx, share)
                store.write(found.problem, found.schedule, found.after)
                rows.append({**asdict(found), "schedule": str(found.schedule)})
                report("tune", done + 1, total)
    finally:
        os.sched_setaffinity(0, allowed)
    if args.json:
        say(json.dumps({"file": str(store.path), "problems": rows}))
        return 0
    for row in rows:
        say(
            f"{row['problem']:<32} {row['before']:7.1f} -> {row['after']:7.1f} {row['unit']:<7}  {row['schedule']}"
        )
    say(f"wrote {store.path}")
    return 0


def _problems(graph: Any) -> list[str]:
    """The distinct products of a model, including those inside loops and branches."""
    from ..graph_ir.ir.graph import subgraphs_of
    from ..graph_ir.ops.matmul import MatmulCore
    from ..graph_ir.schedule.problem import problem_of

    found: dict[str, None] = {}
    pending = [graph]
    while pending:
        ops = pending.pop(0).ops
        products = [op for op in ops if isinstance(op, MatmulCore) and op.is_tuned]
        found.update((problem_of(product), None) for product in products)
        pending.extend(inner for op in ops for inner in subgraphs_of(op))
    return list(found)


def _trials(problem: Any, chosen: Any, target: Any, threads: int, seconds: float) -> list[Trial]:
    """The model's pick, then others of the sweep while time lasts."""
    from ..bench.kernels import sweep, trial

    deadline = time.monotonic() + seconds
    trials = [trial(problem, chosen, target, threads)]
    for schedule in sweep(problem, target, threads):
        if time.monotonic() > deadline:
            break
        if schedule != chosen:
            trials.append(trial(problem, schedule, target, threads))
    return trials


def _row(problem: Any, trials: list[Trial], best: Trial) -> dict[str, Any]:
    return {
        "problem": str(problem),
        "tried": len(trials),
        "before": trials[0].gflops,
        "after": best.gflops,
        "unit": "GFLOP/s",
        "schedule": str(best.schedule),
    }
