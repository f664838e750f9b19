"""Tables and facts of `graphc dev kernel`: engines beside the roof, kernels, and points of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...base.durations import shown_time
from ...base.size_text import listed
from ..terminal import table, wrapped

if TYPE_CHECKING:
    from ...bench.engines import Row
    from ...lab.grid import Point
    from ...lab.heat_map import HeatMap
    from ...lab.problem import Problem
    from ...lab.trial import Bench, Result
    from ...tools.hot_loop.verdict import Verdict

SHOWN = 10
Facts = dict[str, Any]


def result_lines(found: Result, bench: Bench) -> Iterator[str]:
    """Yield a table of engines for each choice of sizes, with the roof that binds."""
    from ...codegen.host import cpu_name

    yield f"{found.problem.text}"
    yield f"{bench.threads} threads of {cpu_name()}, {bench.target.isa}"
    for row in found.rows:
        yield ""
        if row.sizes:
            yield listed(row.sizes)
        yield from table(_engine_rows(row))
        yield f"{row.of_roof:.0%} of the roof, {row.roof_name}: {shown_time(row.roof_seconds)} at least"
        yield from wrapped((f"{name}: {why}" for name, why in row.refused.items()), 2)


def _engine_rows(row: Row) -> list[list[str]]:
    from ...lab.trial import OURS

    ours = row.timings[OURS].median
    rows = [["time", "+-", "Gop/s", "GB/s", "to graphc", "engine"]]
    for name, timing in row.timings.items():
        notes = [row.precisions.get(name, ""), "wrong" if name in row.wrong else ""]
        named = ", ".join([name, *filter(None, notes)])
        gop = f"{row.gflop / timing.median:.1f}" if row.gflop else ""
        rows.append(
            [
                shown_time(timing.median), f"{timing.spread:.0%}", gop, f"{row.nbytes / timing.median / 1e9:.1f}",
                f"{timing.median / ours:.2f}x", named,
            ]
        )  # fmt: skip
    return rows


def kernel_lines(found: Result, verdicts: Mapping[str, Verdict]) -> Iterator[str]:
    """Yield the kernels of the program with their shares, schedules, and what bounds them."""
    total = sum(kernel.seconds for kernel in found.kernels) or 1.0
    yield ""
    for kernel in found.kernels:
        share = f"{kernel.seconds / total:.0%}, " if len(found.kernels) > 1 else ""
        yield f"{kernel.kernel}: {share}{kernel.of_roof:.0%} of {kernel.roof}"
        yield from wrapped([f"  schedule  {kernel.schedule}"], 12)
        if kernel.kernel in verdicts:
            yield from wrapped([f"  loop      {verdicts[kernel.kernel]}"], 12)


def why_lines(found: Result, bench: Bench, verdicts: Mapping[str, Verdict]) -> Iterator[str]:
    """Yield all bounds of the hot loops, and what hardware counters count."""
    from ...tools.hot_loop.verdict import detail_lines

    for name, verdict in verdicts.items():
        yield ""
        yield name
        yield from wrapped(detail_lines(verdict, bench.target), 9)
    counted = found.counted(bench)
    if counted.refused:
        yield from wrapped([f"counters {counted.refused}"], 9)
        return
    counts = {name: number / counted.runs for name, number in counted.counts.items()}
    each = ", ".join(f"{number:.0f} {name}" for name, number in counts.items())
    yield from wrapped([f"counters {each} in one run on one thread"], 9)


def result_facts(
    found: Result, bench: Bench, verdicts: Mapping[str, Verdict] | None = None
) -> Facts:
    """The same as numbers: seconds, bytes, 1e9 operations."""
    loops = {name: verdict.facts() for name, verdict in (verdicts or {}).items()}
    return {
        "problem": found.problem.text,
        "target": bench.target.isa,
        "threads": bench.threads,
        "rows": [_row_facts(row) for row in found.rows],
        "kernels": [
            {
                "kernel": kernel.kernel, "schedule": kernel.schedule, "seconds": kernel.seconds,
                "gop": kernel.gflop, "bytes": kernel.nbytes, "roof": kernel.roof, "of_roof": kernel.of_roof,
                "loop": loops.get(kernel.kernel),
            }
            for kernel in found.kernels
        ],
    }  # fmt: skip


def _row_facts(row: Row) -> Facts:
    engines = {
        name: {
            "seconds": timing.median, "min": timing.best, "spread": timing.spread,
            "gop_per_second": row.gflop / timing.median, "precision": row.precisions.get(name, ""),
            "wrong": name in row.wrong,
        }
        for name, timing in row.timings.items()
    }  # fmt: skip
    return {
        "sizes": dict(row.sizes), "gop": row.gflop, "bytes": row.nbytes, "roof": row.roof_name,
        "roof_seconds": row.roof_seconds, "of_roof": row.of_roof, "engines": engines, "refused": dict(row.refused),
    }  # fmt: skip


def point_lines(
    problem: Problem, bench: Bench, points: Sequence[Point], picture: HeatMap
) -> Iterator[str]:
    """Yield the best points with the cost model's prediction beside them, the heat map, and why others were refused."""
    from ...lab.grid import correlation
    from ...lab.heat_map import text_lines

    ran = sorted((point for point in points if not point.refused), key=lambda p: p.seconds)
    lowest = min((p.predicted for p in ran if p.predicted is not None), default=None)
    rows = [["time", "+-", "predicted", "spills", "settings"]]
    for point in ran[:SHOWN]:
        timing, told = point.timing, "-"
        if lowest and point.predicted is not None:
            told = f"{point.predicted / lowest:.2f}x"
        if timing is not None:
            cells = [
                shown_time(timing.median),
                f"{timing.spread:.0%}",
                told,
                str(point.loop.spills),
            ]
            rows.append([*cells, listed(point.settings)])
    yield f"{problem.text}, {bench.threads} threads, {len(ran)} of {len(points)} schedules ran"
    yield from table(rows)
    ranked = correlation(points)
    if ranked is not None:
        yield f"rank correlation of prediction and time: {ranked:.2f}"
    yield ""
    yield from text_lines(picture)
    yield "full: the best time; empty: a fifth of its speed or less; a dot: refused"
    yield from _refusals(points)
    yield from wrapped([f"best schedule  {ran[0].schedule}"], 15)


def _refusals(points: Sequence[Point]) -> Iterator[str]:
    """Yield the points that cannot run by their reason."""
    reasons: dict[str, list[Point]] = {}
    for point in points:
        if point.refused:
            reasons.setdefault(point.refused, []).append(point)
    for why, refused in reasons.items():
        others = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
        yield from wrapped([f"refused: {listed(refused[0].settings)}{others}: {why}"], 2)


def sweep_facts(problem: Problem, bench: Bench, points: Sequence[Point]) -> Facts:
    """The sweep as numbers: seconds, cycles."""
    from ...lab.grid import correlation

    return {
        "problem": problem.text,
        "target": bench.target.isa,
        "threads": bench.threads,
        "rank_correlation": correlation(points),
        "points": [_point_facts(point) for point in points],
    }


def _point_facts(point: Point) -> Facts:
    facts: Facts = {"settings": dict(point.settings)}
    if point.timing is None:
        return {**facts, "refused": point.refused}
    return {
        **facts, "schedule": point.schedule, "seconds": point.timing.median, "min": point.timing.best,
        "spread": point.timing.spread, "predicted_cycles": point.predicted, "spills": point.loop.spills,
        "inner_loop": list(point.loop.lines),
    }  # fmt: skip
