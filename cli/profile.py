"""`graphc profile`: times the fused program as it runs, kernel by kernel, against this machine's roofline."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..base.durations import shown_time
from ..base.errors import UserError
from ..base.whole_file import write_file
from .dev.roofline import measured_text
from .model_arguments import add_compile_arguments, add_options, compile_request, model_texts
from .progress import progress
from .run_inputs import call_sizes, input_arrays
from .terminal import answer, table, warn_of_load, wrapped

if TYPE_CHECKING:
    from ..driver.stages import Compilation
    from ..tools.profile import KernelTime, Profile
    from ..tools.profile_summary import Cell

HELP = "Time every kernel of a running model against this machine's roofline"
KEYWORDS = ("perf", "time", "trace", "report", "html", "visualize")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_compile_arguments(parser)
    add_options(parser, "seconds", "size")
    parser.add_argument(
        "--html", metavar="FILE",
        help="write one HTML page: graph, kernels, roofline, memory, passes, code; --json prints its facts",
    )  # fmt: skip
    parser.add_argument(
        "--trace", metavar="FILE", help="write a trace of one run for Perfetto or chrome://tracing"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true",
        help="list every kernel, with its ops, layouts and schedule",
    )  # fmt: skip
    add_options(parser, "json", "quiet")


def run(args: argparse.Namespace) -> int:
    """Compile, run for the given time, and print where it went."""
    from ..tools.profile import trace_events
    from ..tools.profile_summary import profile_facts
    from ..tools.report.page import report_facts, report_page

    with progress(args.quiet or args.json) as report:
        compilation, found = profile_model(args, report)
        if args.html:
            report("write", 0, 1)
            write_file(args.html, report_page(compilation, found))
            report("write", 1, 1)
    if args.trace:
        write_file(args.trace, json.dumps(trace_events(found)))
    facts = report_facts(compilation, found) if args.html and args.json else profile_facts(found)
    shown = () if args.html else lines(found, args.verbose, compilation)
    written = [f"wrote {file}" for file in filter(None, (args.trace, args.html))]
    answer(args, facts, chain(shown, written))
    return 0


def profile_model(args: argparse.Namespace, report: Any) -> tuple[Any, Profile]:
    """(compilation, profile) of the model that the arguments name. Raise UserError for a time that is not positive."""
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
    warn_of_load(threads)
    report("measure", 0, 1)
    roofs = roofline(request.target, threads)
    found = profile(compilation, arrays, roofs, args.seconds)
    report("measure", 1, 1)
    return compilation, found


MAX_KERNELS = 20
"""Kernels that are listed without --verbose."""

JUDGED = 8
"""Kernels whose hot loops are judged with --verbose: each is compiled again, to assembly."""


def lines(found: Profile, verbose: bool, compilation: Compilation | None = None) -> Iterator[str]:
    """Yield the total, the time by type of op, and the kernels, longest first; with `verbose` all about each, and what
    bounds the longest."""
    from ..tools.hot_loop.verdict import verdicts
    from ..tools.profile_summary import headline, kernel_cells, type_cells

    whole = headline(found)
    sizes = f", {sizes_text(found.sizes)}" if found.sizes else ""
    yield (
        f"{shown_time(whole.seconds)} a run, {whole.gflops:.1f} GFLOP/s, {whole.gbytes_per_second:.1f} GB/s, "
        f"{100 * whole.of_roof:.0f} % of the roof"
    )
    threads = "1 thread" if found.threads == 1 else f"{found.threads} threads"
    yield f"{found.model}: {threads}, {found.roofline.isa}, median of {found.runs} runs{sizes}"
    yield ""
    types = [[row.get(name, ("", None))[0] for name in TYPE_COLUMNS] for row in type_cells(found)]
    yield from table([TYPE_COLUMNS, *types])
    yield ""
    kernels = sorted(found.kernels, key=lambda kernel: -kernel.seconds)
    shown = kernels if verbose else kernels[:MAX_KERNELS]
    yield from table([COLUMNS, *map(_kernel_row, kernel_cells(found)[: len(shown)])])
    if others := kernels[len(shown) :]:
        spent = sum(k.seconds for k in others)
        yield (
            f"and {len(others)} more kernels, {shown_time(spent)} "
            f"({100 * spent / max(found.seconds, 1e-12):.1f} %); -v lists all"
        )
    yield ""
    yield from wrapped(_conditions(found), indent=10)
    if verbose:
        yield ""
        judged = verdicts(compilation, kernels[:JUDGED], found.roofline) if compilation else {}
        loops = {name: str(verdict) for name, verdict in judged.items()}
        yield from wrapped((line for kernel in kernels for line in _details(kernel, loops)), 12)


TYPE_COLUMNS = ("time", "share", "kernels", "GFLOP/s", "GB/s", "of roof", "op type")


COLUMNS = ("time", "share", "GFLOP/s", "GB/s", "of roof", "busy", "kernel of node")


def _kernel_row(row: Mapping[str, Cell]) -> list[str]:
    *measured, (roof, _), (busy, _) = (row[name] for name in (*COLUMNS[:4], "of roof", "busy"))
    return [*(text for text, _ in measured), f"{roof} {row['roof'][0]}", busy, row["node"][0]]


def _conditions(found: Profile) -> list[str]:
    """The roofs, and the cost of measuring."""
    roofs = found.roofline
    measured = found.stamped_seconds / max(found.plain_seconds, 1e-12) - 1
    return [
        f"roofs     {', '.join(f'{x} {gflops:.1f}' for x, gflops in found.peaks().items())} GFLOP/s; "
        + ", ".join(f"{x.name} {x.gbytes_per_second:.1f} GB/s" for x in roofs.levels)
        + f"; {measured_text(roofs)}",
        f"overhead  {100 * found.overhead:.2f} %: {len(found.kernels) + 1} timestamps of "
        f"{found.stamp_seconds * 1e9:.0f} ns in one run of {found.stride}, not in the times above; "
        f"{100 * measured:+.1f} % in interleaved runs with and without them",
    ]


def sizes_text(sizes: Mapping[str, int]) -> str:
    """Return `B=2, S=37`."""
    return ", ".join(f"{name}={number}" for name, number in sizes.items())


def _details(kernel: KernelTime, loops: Mapping[str, str]) -> list[str]:
    loop = loops.get(kernel.kernel, "")
    rows = [*kernel.properties(), ("isa", kernel.isa), ("loop", loop)]
    return [f"{kernel.node} = {kernel.kernel}"] + [f"  {n:<9} {t}" for n, t in rows if t]
