"""`graphc kernel`: build and time one kernel, with the schedule chosen, given, or swept."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, Any

from ..model_arguments import (
    add_json_argument,
    add_quiet_argument,
    add_target_argument,
    add_threads_argument,
)
from ..progress import progress
from ..terminal import say

if TYPE_CHECKING:
    from ...bench.kernels import Trial

HELP = "Build and time one kernel, such as 'matmul m128n768k768 f32'"
SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "problem", help="the problem, as `graphc profile` prints it: 'matmul m128n768k768 f32'"
    )
    add_target_argument(parser)
    add_threads_argument(parser)
    parser.add_argument(
        "--schedule",
        default="",
        metavar="TEXT",
        help="steps of its schedule, as printed, or settings of it: 'mr=4 nv=3 kc=256'",
    )
    parser.add_argument(
        "--sweep", action="store_true", help=f"search all schedules and print the best {SHOWN}"
    )
    parser.add_argument("--asm", action="store_true", help="print the inner loop")
    add_json_argument(parser)
    add_quiet_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Time the kernel, or the best of a sweep."""
    from ...bench import kernels
    from ...bench.measure import pin_to
    from ...bench.peak import measured_peak
    from ...codegen.host import target_for
    from ...graph_ir.ir.schedule import parse_schedule
    from ...runtime.threadpool import resolve_threads

    problem = kernels.parse_problem(args.problem)
    target, threads = target_for(args.target), resolve_threads(args.threads)
    allowed = os.sched_getaffinity(0)
    pin_to(threads)
    try:
        peak = measured_peak(target) * threads * kernels.peak_rate(problem, target)
        chosen = kernels.full_schedule(problem, target, threads)
        wanted = [chosen]
        if args.schedule:
            override = parse_schedule(args.schedule)
            wanted = [kernels.full_schedule(problem, target, threads, override)]
        if args.sweep:
            wanted = list(dict.fromkeys([*wanted, *kernels.sweep(problem, target, threads)]))
        trials: list[Trial] = []
        with progress(args.quiet or args.json or not args.sweep) as report:
            report("sweep", 0, len(wanted))
            for schedule in wanted:
                trials.append(kernels.trial(problem, schedule, target, threads))
                report("sweep", len(trials), len(wanted))
    finally:
        os.sched_setaffinity(0, allowed)
    trials.sort(key=lambda trial: -trial.gflops)
    if args.json:
        say(
            json.dumps(
                {"problem": str(problem), "peak": peak, "trials": [_facts(t, peak) for t in trials]}
            )
        )
        return 0
    for trial in trials[:SHOWN]:
        say(_line(trial, peak, trial.schedule == chosen))
    if args.asm:
        say("\n".join(trials[0].inner_loop))
    return 0


def _facts(trial: Trial, peak: float) -> dict[str, Any]:
    sizes = trial.schedule.settings
    return {
        "mr": sizes["mr"], "nr": trial.columns, "mc": sizes.get("mc"), "kc": sizes.get("kc"), "ng": sizes["ng"],
        "schedule": str(trial.schedule), "seconds": trial.timing.median, "min": trial.timing.best,
        "gflops": trial.gflops, "share_of_peak": trial.gflops / peak, "spills": trial.spills,
        "inner_loop": list(trial.inner_loop),
    }  # fmt: skip


def _line(trial: Trial, peak: float, chosen: bool) -> str:
    return (
        f"{trial.schedule}  {trial.timing.median * 1e3:.4g} ms  {trial.gflops:.1f} GFLOP/s  "
        f"{trial.gflops / peak:.0%} of peak  {trial.spills} spills"
        f"{'  (chosen by the cost model)' if chosen else ''}"
    )
