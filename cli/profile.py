"""`graphc profile`: times the fused program as it runs, kernel by kernel, against this machine's roofline."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError
from ..base.file_errors import unwritable
from ..base.whole_file import whole_file
from .dev.roofline import measured_text
from .model_arguments import (
    add_compile_arguments,
    add_json_argument,
    add_quiet_argument,
    add_size_argument,
    compile_request,
    model_texts,
)
from .progress import progress
from .run_inputs import call_sizes, input_arrays
from .terminal import say

if TYPE_CHECKING:
    from ..tools.profile import KernelTime, Profile

HELP = "Time every kernel of a running model against this machine's roofline"
KEYWORDS = ("perf", "time", "trace")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_compile_arguments(parser)
    add_profile_arguments(parser)
    parser.add_argument(
        "--trace", metavar="FILE", help="write a trace of one run for Perfetto or chrome://tracing"
    )
    add_json_argument(parser)
    add_quiet_argument(parser)


def add_profile_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how long to measure, and at which sizes."""
    parser.add_argument("--seconds", type=float, default=0.5, help="time to run (default: 0.5)")
    add_size_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Compile, run for the given time, and print where it went."""
    from ..tools.profile import trace_events

    with progress(args.quiet or args.json) as report:
        _, found = profile_model(args, report)
    if args.trace:
        write_text(args.trace, json.dumps(trace_events(found)))
    if args.json:
        say(json.dumps(to_json(found)))
        return 0
    say("\n".join(lines(found)))
    if args.trace:
        say(f"wrote {args.trace}")
    return 0


def profile_model(args: argparse.Namespace, report: Any) -> tuple[Any, Profile]:
    """(compilation, profile) of the model that the arguments name. UserError for a time that is not positive."""
    from ..bench.measure import load_warning
    from ..bench.roofline import roofline
    from ..driver.compiler import compile_stages
    from ..tools.profile import profile

    if not 0 < args.seconds < math.inf:
        raise UserError(f"--seconds must be a time above 0, got {args.seconds:g}")
    texts = model_texts(args)
    request = compile_request(args, texts)
    threads = request.options.threads
    compilation = compile_stages(request, on_phase=report)
    arrays = input_arrays(compilation.artifact.metadata.inputs, texts.values, call_sizes(args.size))
    if warning := load_warning(threads):
        print(f"graphc: warning: {warning}", file=sys.stderr)
    report("measure", 0, 1)
    roofs = roofline(request.target, threads)
    found = profile(compilation, arrays, roofs, args.seconds)
    report("measure", 1, 1)
    return compilation, found


def write_text(path: str, text: str) -> None:
    """Write a file. UserError if the system refuses it."""
    try:
        with whole_file(path) as stream:
            stream.write(text.encode())
    except OSError as error:
        raise unwritable(path, error) from error


def to_json(found: Profile) -> dict[str, Any]:
    """The profile as plain values; iterations of parallel loops are only in the trace."""
    from dataclasses import asdict, replace

    facts = asdict(replace(found, tasks=()))
    del facts["tasks"]
    busy = found.busy()
    for fact, kernel in zip(facts["kernels"], found.kernels, strict=True):
        fact["of_roof"], fact["busy"] = kernel.of_roof, busy.get(kernel.node, 0.0)
    return facts


COLUMNS = ("time us", "share", "GFLOP/s", "GB/s", "% of roof", "busy", "node", "kernel")
LEFT = 6  # columns of numbers


def lines(found: Profile) -> list[str]:
    """The table, the totals, and what each kernel is."""
    busy = found.busy()
    rows = [COLUMNS, *(_row(k, found.seconds, busy.get(k.node, 0.0)) for k in found.kernels)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    text = ["  ".join(c.rjust(w) for c, w in zip(r[:LEFT], widths, strict=False)) for r in rows]
    table = [
        f"{left}  {row[LEFT].ljust(widths[LEFT])}  {row[-1]}".rstrip()
        for left, row in zip(text, rows, strict=True)
    ]
    details = [line for kernel in found.kernels for line in _details(kernel)]
    return [*table, *_totals(found), "", *details]


def _row(kernel: KernelTime, total: float, busy: float) -> tuple[str, ...]:
    seconds = max(kernel.seconds, 1e-12)
    return (
        f"{kernel.seconds * 1e6:.2f}",
        f"{100 * kernel.seconds / total:.1f} %",
        f"{kernel.gflop / seconds:.1f}",
        f"{kernel.nbytes / 1e9 / seconds:.1f}",
        f"{100 * kernel.of_roof:.0f} {kernel.roof}",
        f"{100 * busy:.0f} %",
        kernel.node,
        kernel.kernel,
    )


def _totals(found: Profile) -> list[str]:
    gflop = sum(k.gflop for k in found.kernels)
    nbytes = sum(k.nbytes for k in found.kernels)
    seconds, roofs = max(found.seconds, 1e-12), found.roofline
    measured = found.stamped_seconds / max(found.plain_seconds, 1e-12) - 1
    return [
        *([f"sizes {sizes_text(found.sizes)}"] if found.sizes else []),
        f"total {seconds * 1e6:.2f} us a run on {found.threads} threads, {found.runs} runs with stamps: "
        f"{gflop / seconds:.1f} GFLOP/s, {nbytes / 1e9 / seconds:.1f} GB/s",
        f"outside kernels {found.outside * 1e6:.2f} us ({100 * found.outside / seconds:.1f} %)",
        f"roofs: {roofs.gflops:.1f} GFLOP/s; "
        + ", ".join(f"{x.name} {x.gbytes_per_second:.1f} GB/s" for x in roofs.levels)
        + f"; {measured_text(roofs)}",
        f"overhead {100 * found.overhead:.2f} %: {len(found.kernels) + 1} time stamps of "
        f"{found.stamp_seconds * 1e9:.0f} ns in one run of {found.stride}, not in the times above; "
        f"with and without them in turns {100 * measured:+.1f} %",
    ]


def sizes_text(sizes: Mapping[str, int]) -> str:
    """`B=2, S=37`."""
    return ", ".join(f"{name}={number}" for name, number in sizes.items())


def _details(kernel: KernelTime) -> list[str]:
    rows = [
        ("ops", " -> ".join(kernel.ops)),
        ("from", ", ".join(kernel.source)),
        ("problem", kernel.problem),
        ("layouts", "; ".join(kernel.layouts)),
        ("schedule", kernel.schedule),
        ("isa", kernel.isa),
    ]
    return [f"{kernel.node} = {kernel.kernel}"] + [f"  {n:<9} {t}" for n, t in rows if t]
