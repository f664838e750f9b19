"""`graphc tune`: measure the schedules of the kernels of a model, keep the best for `compile`."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from .model_arguments import add_compile_arguments, add_options, model_sizes, opened_model
from .progress import progress
from .terminal import answer

HELP = "Measure schedules of a model's kernels and keep the best for `compile`"
KEYWORDS = ("autotune",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_compile_arguments(parser, schedules=False)
    add_options(parser, "size")
    parser.add_argument("--seconds", type=float, default=60.0, help="time budget (default: 60)")
    parser.add_argument(
        "--tuning",
        metavar="FILE",
        help="file to keep the schedules in (default: GRAPHC_TUNING, or the user's cache)",
    )
    parser.add_argument(
        "--again", action="store_true", help="also measure kernels that the file has schedules of"
    )
    add_options(parser, "json", "quiet")


def run(args: argparse.Namespace) -> int:
    """Tune every distinct kernel, the largest first, until the time is up."""
    from ..bench.measure import pinned
    from ..driver.tuning import TuningFile, default_file
    from ..tools.kernel_trials import tunable_kernels, tune_kernel
    from ..tools.variants import with_counts

    ctx, graph, _ = opened_model(args)
    options, target = ctx.options, ctx.target
    kernels = tunable_kernels(graph, ctx)
    sizes = with_counts(graph, model_sizes(args, graph))
    store = TuningFile(
        Path(args.tuning) if args.tuning else default_file(), target, options.threads
    )
    known = {} if args.again else store.read()
    kernels = [(op, space) for op, space in kernels if space.problem not in known]
    rows: list[dict[str, Any]] = []
    deadline = time.monotonic() + args.seconds
    with pinned(options.threads), progress(args.quiet or args.json) as report:
        report("tune", 0, len(kernels))
        for done, (op, space) in enumerate(kernels):
            share = (deadline - time.monotonic()) / (len(kernels) - done)
            found = tune_kernel(op, space, ctx, share, sizes)
            store.write(found.problem, found.schedule, found.after)
            rows.append({**asdict(found), "schedule": str(found.schedule)})
            report("tune", done + 1, len(kernels))
    lines = [
        f"{row['problem']:<32} {row['before']:7.1f} -> {row['after']:7.1f} {row['unit']:<7}  {row['schedule']}"
        for row in rows
    ]
    gains = [row["after"] / row["before"] for row in rows]
    if gains:
        faster, mean = sum(gain > 1 for gain in gains), geometric_mean(gains)
        lines.append(
            f"{faster} of {len(gains)} kernels are faster, {mean:.3f} times as fast on average"
        )
    if known:
        lines.append(f"kept {len(known)} schedules of earlier runs; --again measures them, too")
    facts = {"file": str(store.path), "problems": rows, "known": sorted(known)}
    answer(args, facts, [*lines, f"wrote {store.path}"], 4)
    return 0
