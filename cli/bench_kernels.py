"""`graphc bench --suite kernels`: problems of the lab with their share of the roof, beside other engines."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

from ..base.durations import shown_time
from ..base.size_text import listed
from .dev.kernel_tables import result_facts
from .progress import progress
from .terminal import table, wrapped

if TYPE_CHECKING:
    from ..lab.trial import Bench, Result

WELL_BELOW = 0.85
"""Share of the roof below which a row needs a reason."""

Output = Callable[[Callable[[], Any], Callable[[], Any]], None]


def run_kernels(args: argparse.Namespace, threads: int, output: Output) -> int:
    """Measure every problem of the suite; 1 if another engine's result differs."""
    from ..codegen.host import target_for
    from ..lab.read import read_problem
    from ..lab.suite import kernels
    from ..lab.trial import Bench, measure

    texts = kernels(args.only)
    peers = [name for name in args.against.split(",") if name]
    bench = Bench(target_for(args.target), threads, peers, args.seconds)
    found: list[Result] = []
    with progress(args.quiet or args.json) as report:
        for text in texts:
            report(text, len(found), len(texts))
            found.append(measure(read_problem(text), bench))
        report("kernels", len(found), len(texts))
    output(
        lambda: [result_facts(one, bench, one.verdicts(bench)) for one in found],
        lambda: "\n".join([*lines(found, bench), *reasons(found, bench)]),
    )
    return int(any(row.wrong for one in found for row in one.rows))


def reasons(results: Sequence[Result], bench: Bench) -> Iterator[str]:
    """Yield what bounds the longest kernel of each problem that stays well below its roof."""
    low = [one for one in results if min(row.of_roof for row in one.rows) < WELL_BELOW]
    if low:
        yield ""
        yield f"below {WELL_BELOW:.0%} of the roof, and what bounds the longest kernel:"
    for one in low:
        longest = max(one.kernels, key=lambda kernel: kernel.seconds)
        verdict = one.verdicts(bench).get(longest.kernel, "it has no loop")
        others = len(one.kernels) - 1
        among = f"with {others} other kernels; " if others else ""
        yield from wrapped([f"{one.problem.text}: {among}{verdict}"], 2)


def lines(results: Sequence[Result], bench: Bench) -> Iterator[str]:
    """Yield a row for each problem and size: time, rate, share of the roof, and the best peer's time over graphc's."""
    from ..lab.trial import OURS

    head = [
        "time",
        "+-",
        "Gop/s",
        "of roof",
        "roof",
        *(["ratio"] if bench.peers else []),
        "problem",
    ]
    cells, ratios = [head], []
    for one in results:
        for row in one.rows:
            ours = row.timings[OURS]
            others = [
                timing.median
                for name, timing in row.timings.items()
                if name != OURS and name not in row.wrong
            ]
            ratio = min(others) / ours.median if others else math.nan
            ratios += [ratio] if others else []
            sizes = listed(row.sizes)
            cells.append(
                [
                    shown_time(ours.median), f"{ours.spread:.0%}",
                    f"{row.gflop / ours.median:.1f}" if row.gflop else "", f"{row.of_roof:.0%}", row.roof_name,
                    *([f"{ratio:.2f}" if others else "-"] if bench.peers else []),
                    f"{one.problem.text} {sizes}".strip(),
                ]
            )  # fmt: skip
    yield from table(cells)
    if ratios:
        yield f"ratio to the best peer, geometric mean of {len(ratios)}: {geometric_mean(ratios):.2f}"
