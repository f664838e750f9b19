"""`graphc dev kernel`: one problem, built, checked and timed, with the schedule chosen, given, or swept."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...base.durations import shown_time
from ...base.errors import UserError
from ...base.whole_file import write_file
from ..explain import step_lines
from ..model_arguments import add_options
from ..progress import progress
from ..terminal import answer, say, warn_of_load
from .kernel_tables import (
    kernel_lines,
    point_lines,
    result_facts,
    result_lines,
    sweep_facts,
    why_lines,
)

if TYPE_CHECKING:
    from ...graph_ir.ir.schedule import Schedule
    from ...lab.problem import Problem
    from ...lab.trial import Bench

HELP = "Build, check and time one problem, such as 'matmul m128n768k768 f32'"
KEYWORDS = ("gemm", "microkernel", "lab", "schedule")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "problem", nargs="*",
        help="'matmul m128n768k768 f32 +bias+gelu', 'conv n1c64h56w56o64k3p1', 'softmax 1024x1024', "
        "'\"y = gelu(x) * s + b\" 1024x768 bf16', 'MODEL:NODE' and others; a wrong one lists them",
    )  # fmt: skip
    add_options(parser, "target", "threads")
    parser.add_argument(
        "--vs",
        default="",
        metavar="PEERS",
        help="time other engines beside it: ort,openvino,torch,inductor,numpy",
    )
    add_options(parser, "seconds")
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--schedule", default="", metavar="TEXT", help="steps of its schedule, as printed"
    )
    group.add_argument(
        "--set", default="", metavar="SETTINGS", dest="settings",
        help="settings of its schedule, which the cost model completes: mr=8,nv=3,kc=256",
    )  # fmt: skip
    group.add_argument(
        "--sweep", nargs="?", const="", metavar="GRID",
        help="time all schedules worth measuring, or those of a grid: mr=4..12,kc=128,256,512",
    )  # fmt: skip
    parser.add_argument("--svg", metavar="FILE", help="write the heat map of a sweep as a picture")
    parser.add_argument("--html", metavar="FILE", help="write the heat map of a sweep as a page")
    parser.add_argument(
        "--export", metavar="DIR",
        help="write every stage, a harness in C and its data to a folder, and measure nothing",
    )  # fmt: skip
    parser.add_argument(
        "--ab", nargs=2, metavar="DIR[:STAGE]",
        help="compare two exported versions; STAGE: a file of the folder, or tir, ll, s, o (default: edited last)",
    )  # fmt: skip
    parser.add_argument(
        "--steps", action="store_true", help="print the loops after each step of the schedule"
    )
    parser.add_argument("--asm", action="store_true", help="print the inner loop")
    parser.add_argument(
        "--why", action="store_true",
        help="print what bounds the inner loop: ports, front end, latency, llvm-mca, hardware counters",
    )  # fmt: skip
    add_options(parser, "json", "quiet")


def run(args: argparse.Namespace) -> int:
    """Time the problem, or sweep its schedules."""
    from ...bench.measure import pinned
    from ...bench.peers import import_peers
    from ...codegen.host import target_for
    from ...lab.folder import write_folder
    from ...lab.read import read_problem
    from ...lab.trial import Bench
    from ...runtime.threadpool import resolve_threads

    if bool(args.ab) == bool(args.problem):
        raise UserError("`graphc dev kernel` takes a problem, or two folders with --ab")
    if not 0 < args.seconds < math.inf:
        raise UserError(f"--seconds must be a time above 0, got {args.seconds:g}")
    if args.ab:
        return _compare(args)
    problem = read_problem(" ".join(args.problem))
    peers = [name for name in args.vs.split(",") if name]
    threads = resolve_threads(args.threads)
    bench = Bench(target_for(args.target), threads, peers, args.seconds)
    warn_of_load(threads)
    if args.export:
        write_folder(Path(args.export), problem, bench, _requested(args))
        say(
            f"wrote {args.export}: edit a .tir, kernel.ll or kernel.s, then --ab {args.export}:o {args.export}"
        )
        return 0
    import_peers(peers)
    with pinned(threads):
        if args.sweep is not None:
            return _sweep(args, problem, bench)
        return _measure(args, problem, bench, _requested(args))


def _requested(args: argparse.Namespace) -> Schedule | None:
    from ...graph_ir.ir.schedule import parse_schedule

    text = args.schedule or args.settings.replace(",", " ")
    return parse_schedule(text) if text.strip() else None


def _measure(
    args: argparse.Namespace, problem: Problem, bench: Bench, schedule: Schedule | None
) -> int:
    from ...lab.trial import measure
    from ...tools.explain import Explanation

    found = measure(problem, bench, schedule)
    compilation = found.compilation
    verdicts = found.verdicts(bench)

    def lines() -> Iterator[str]:
        yield from result_lines(found, bench)
        yield from kernel_lines(found, verdicts)
        if args.why:
            yield from why_lines(found, bench, verdicts)
        if args.steps:
            yield from step_lines(Explanation.of(compilation).steps(problem.node))
        if args.asm:
            yield from _loop(compilation)

    answer(args, result_facts(found, bench, verdicts), lines())
    return 0


def _loop(compilation: Any) -> tuple[str, ...]:
    from ...codegen.aot import assembly
    from ...tools.hot_loop.find import hot_loop

    return hot_loop(assembly(compilation.llvm_ir, compilation.target), compilation.target).lines


def _compare(args: argparse.Namespace) -> int:
    """Time two versions of a problem in turn."""
    from ...bench.measure import pinned
    from ...codegen.host import target_for
    from ...lab.ab import compare
    from ...lab.folder import read_version
    from ...lab.read import read_problem
    from ...runtime.threadpool import resolve_threads

    target, threads = target_for(args.target), resolve_threads(args.threads)
    versions = [read_version(name, target) for name in args.ab]
    if versions[0].problem != versions[1].problem:
        named = " and ".join(f"'{version.problem}'" for version in versions)
        raise UserError(f"--ab must name versions of one problem, got {named}")
    with pinned(threads):
        found = compare(versions, read_problem(versions[0].problem), threads, args.seconds)
    labels = [version.label for version in versions]
    times = [shown_time(seconds) for seconds in (found.first, found.second)]
    lines = [
        *(f"{time:>8}  {label}" for time, label in zip(times, labels, strict=True)),
        f"first / second: {found.ratio:.3f}, {found.low:.3f} to {found.high:.3f} with 97 %",
        found.verdict,
    ]
    answer(args, {"versions": labels, **asdict(found), "verdict": found.verdict}, lines)
    return 0


def _sweep(args: argparse.Namespace, problem: Problem, bench: Bench) -> int:
    from ...lab.grid import offered, points_of, read_grid, sweep
    from ...lab.heat_map import heat_map, html, svg

    points = points_of(read_grid(args.sweep)) if args.sweep else offered(problem, bench)
    with progress(args.quiet or args.json) as report:
        found = sweep(problem, bench, points, report)
    picture = heat_map(problem.text, found)
    for path, draw in ((args.svg, svg), (args.html, html)):
        if path:
            write_file(path, draw(picture))
    loop = min(found, key=lambda point: point.seconds).loop.lines if args.asm else ()
    lines = chain(point_lines(problem, bench, found, picture), loop)
    answer(args, sweep_facts(problem, bench, found), lines)
    return 0
