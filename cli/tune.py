"""`graphc tune`: measure the schedules of the kernels of a model, keep the best for `compile`."""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .model_arguments import (
    add_compile_arguments,
    add_json_argument,
    add_quiet_argument,
    compile_options,
    read_model,
)
from .progress import progress
from .terminal import say

HELP = "Measure schedules of a model's kernels and keep the best for `compile`"
KEYWORDS = ("autotune",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_compile_arguments(parser, schedules=False)
    parser.add_argument("--seconds", type=float, default=60.0, help="time budget (default: 60)")
    parser.add_argument(
        "--tuning",
        metavar="FILE",
        help="file to keep the schedules in (default: GRAPHC_TUNING, or the user's cache)",
    )
    parser.add_argument(
        "--again", action="store_true", help="also measure kernels that the file has schedules of"
    )
    add_json_argument(parser)
    add_quiet_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Tune every distinct kernel, the largest first, until the time is up."""
    from ..bench.measure import pin_to
    from ..codegen.host import target_for
    from ..driver.tuning import TuningFile, default_file
    from ..graph_ir.schedule.context import LowerContext
    from ..tools.kernel_trials import tunable_kernels, tune_kernel

    options, target = compile_options(args), target_for(args.target)
    graph, _ = read_model(args)
    ctx = LowerContext(target, options)
    kernels = tunable_kernels(graph, ctx)
    store = TuningFile(
        Path(args.tuning) if args.tuning else default_file(), target, options.threads
    )
    allowed = os.sched_getaffinity(0)
    pin_to(options.threads)
    known = {} if args.again else store.read()
    kernels = [(op, space) for op, space in kernels if space.problem not in known]
    rows: list[dict[str, Any]] = []
    deadline = time.monotonic() + args.seconds
    try:
        with progress(args.quiet or args.json) as report:
            report("tune", 0, len(kernels))
            for done, (op, space) in enumerate(kernels):
                share = (deadline - time.monotonic()) / (len(kernels) - done)
                found = tune_kernel(op, space, ctx, share)
                store.write(found.problem, found.schedule, found.after)
                rows.append({**asdict(found), "schedule": str(found.schedule)})
                report("tune", done + 1, len(kernels))
    finally:
        os.sched_setaffinity(0, allowed)
    if args.json:
        say(json.dumps({"file": str(store.path), "problems": rows, "known": sorted(known)}))
        return 0
    for row in rows:
        say(
            f"{row['problem']:<32} {row['before']:7.1f} -> {row['after']:7.1f} {row['unit']:<7}  {row['schedule']}"
        )
    gains = [row["after"] / row["before"] for row in rows]
    if gains:
        faster = sum(gain > 1 for gain in gains)
        mean = math.exp(sum(map(math.log, gains)) / len(gains))
        say(f"{faster} of {len(gains)} kernels are faster, {mean:.3f} times as fast on average")
    if known:
        say(f"kept {len(known)} schedules of earlier runs; --again measures their kernels, too")
    say(f"wrote {store.path}")
    return 0
