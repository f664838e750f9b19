"""`graphc verify`: every op of a model in every layout and schedule it offers, native code against NumPy, and timed."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from ...base.printable import printable
from ..model_arguments import add_compile_arguments, add_options, model_sizes, opened_model
from ..progress import Report, progress
from ..run_inputs import check_names
from ..terminal import answer, shortened, show

if TYPE_CHECKING:
    from ...graph_ir.schedule.context import LowerContext
    from ...tools.grade import Grade
    from ...tools.variant_program import Trial
    from ...tools.variants import Variant

HELP = "Check every op of a model in every layout and schedule, and time each"
BATCH = 64  # variants compiled at once
MAX_LETTERS = 36  # of the name of an op in the table
MANY = 32  # from this many variants on, use other processes to compile: they take half a second to start


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_compile_arguments(parser, schedules=False)
    add_options(parser, "size", "json")
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="print only mismatches, the count and the grade"
    )


def run(args: argparse.Namespace) -> int:
    """Print a row per (op, layout, schedule) and how well its time was predicted; 1 if any result is wrong."""
    from ...tools.grade import grades
    from ...tools.variants import model_variants

    ctx, graph, values = opened_model(args)
    check_names([op.name for op in graph.inputs], values)
    variants = model_variants(graph, ctx, model_sizes(args, graph))
    with progress(args.quiet or args.json) as report:
        trials = check(variants, ctx, report)
    wrong = sum(not trial.difference.ok for trial in trials)
    found = grades(trials)
    shown = [trial for trial in trials if not (args.quiet and trial.difference.ok)]
    if shown and not args.json:
        _print_table(shown)
    lines = chain(
        [f"{len(trials)} variants, {wrong} mismatches, {ctx.target.isa}"],
        _grade_lines(found, ctx.options.threads),
    )
    answer(args, _facts(trials, found, wrong, ctx.options.threads), lines, 4)
    return 1 if wrong else 0


def check(variants: Sequence[Variant], ctx: LowerContext, report: Report) -> list[Trial]:
    """Compile and run the variants in batches."""
    from ...codegen.kernel_pool import KernelPool
    from ...driver.request import resolve_jobs
    from ...tools.variant_program import try_variants

    trials: list[Trial] = []
    report("verify", 0, len(variants))
    with KernelPool(resolve_jobs(None) if len(variants) >= MANY else 1) as pool:
        for start in range(0, len(variants), BATCH):
            trials += try_variants(variants[start : start + BATCH], ctx, pool)
            report("verify", len(trials), len(variants))
    return trials


def _facts(
    trials: Sequence[Trial], found: Sequence[Grade], wrong: int, threads: int
) -> dict[str, Any]:
    from ...bench.measure import load_warning
    from ...tools.grade import overall

    correlation, lost = overall(found)
    return {
        "rows": [_row(trial) for trial in trials],
        "mismatches": wrong,
        "grades": [
            {
                "problem": grade.problem,
                "variants": grade.variants,
                "rank_correlation": _number(grade.correlation),
                "chosen_seconds": grade.chosen,
                "best_seconds": grade.best,
                "best": grade.best_variant,
                "time_lost": grade.lost,
            }
            for grade in found
        ],
        "rank_correlation": _number(correlation),
        "time_lost": lost,
        "load_warning": load_warning(threads),
    }


def _number(value: float) -> float | None:
    """NaN is not JSON."""
    return None if value != value else value


def _row(trial: Trial) -> dict[str, Any]:
    variant = trial.variant
    return {
        "op": variant.op, "layout": variant.layout, "schedule": str(variant.schedule or "-"),
        "max_error": trial.difference.absolute, "ok": trial.difference.ok,
        "predicted_cycles": variant.predicted, "seconds": trial.seconds, "chosen": variant.chosen,
    }  # fmt: skip


def _print_table(trials: Sequence[Trial]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("op", no_wrap=True)
    for heading in ("layout", "schedule"):
        table.add_column(heading, overflow="fold")
    for heading in ("predicted", "us", "max error"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for trial in trials:
        variant = trial.variant
        table.add_row(
            Text(shortened(printable(variant.op), MAX_LETTERS)),  # a name may look like markup
            variant.layout,
            f"{'* ' if variant.chosen else ''}{variant.schedule or '-'}",
            "" if variant.predicted is None else f"{variant.predicted:.0f}",
            "" if trial.seconds is None else f"{trial.seconds * 1e6:.2f}",
            f"{trial.difference.absolute:.2g}",
            "ok" if trial.difference.ok else "MISMATCH",
        )
    show(table)


def _grade_lines(found: Sequence[Grade], threads: int) -> Iterator[str]:
    """Yield a line per problem, then all of them together."""
    from ...bench.measure import load_warning
    from ...tools.grade import by_kind, overall

    if not found:
        return
    width = max(len(grade.problem) for grade in found)
    for grade in found:
        yield (
            f"{grade.problem:<{width}}  {grade.variants:>3} timed, rank correlation {grade.correlation:5.2f}, "
            f"chosen {grade.chosen * 1e6:.2f} us, {100 * grade.lost:.0f} % over {grade.best_variant}"
        )
    kinds = by_kind(found)
    for kind, graded in kinds.items() if len(kinds) > 1 else ():
        correlation, lost = overall(graded)
        yield (
            f"{kind:<{width}}  {len(graded):>3} problems, median rank correlation {correlation:.2f}, "
            f"choices lose {100 * lost:.1f} %"
        )
    correlation, lost = overall(found)
    yield (
        f"cost model on {threads} threads: median rank correlation {correlation:.2f}, "
        f"its choices lose {100 * lost:.1f} % against the best measured"
    )
    if warning := load_warning(threads):
        yield warning
