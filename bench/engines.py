"""One case, every engine: results compared first, then timed in interleaved rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..codegen.host import cpu_name, target_for
from ..driver.compiler import compile as compile_model
from ..driver.versions import versions
from ..graph_ir.inspect.compare import difference
from .cases import Case, specs_of
from .measure import Timing, interleave
from .peak import measured_peak
from .peers import Contender, graphc_contender, make_peer

if TYPE_CHECKING:
    from rich.table import Table

OnStep = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Row:
    """One case: work, the machine's peak at that time, and each engine's times; `worst` is the largest relative
    deviation."""

    name: str
    gflop: float
    peak: float
    timings: dict[str, Timing]
    worst: float
    agree: bool

    def gflops(self, engine: str) -> float:
        """GFLOP/s by the median."""
        return self.gflop / self.timings[engine].median

    @property
    def ratio(self) -> float | None:
        """Best peer's median divided by graphc's: above 1 graphc is faster. None without peers."""
        others = [timing.median for name, timing in self.timings.items() if name != "graphc"]
        return min(others) / self.timings["graphc"].median if others else None


def compare(
    case: Case,
    peers: Sequence[str],
    target: str,
    threads: int,
    rounds: int,
    seconds: float,
    report: OnStep,
) -> Row:
    """Load the case into every engine, check that they agree, and time them."""
    report(case.name, 0, rounds)
    arrays = case.arrays()
    model = compile_model(case.model, target, threads, specs_of(arrays))
    contenders = [graphc_contender(model, arrays)]
    contenders += [make_peer(name, case.onnx(), arrays, threads) for name in peers]
    worst, agree = _deviation(contenders)
    peak = measured_peak(target_for(target))
    timings = interleave(
        {c.name: c.run for c in contenders},
        rounds,
        seconds,
        lambda done, total: report(case.name, done, total),
    )
    return Row(case.name, model.stats["gflop"], peak * threads, timings, worst, agree)


def _deviation(contenders: Sequence[Contender]) -> tuple[float, bool]:
    for contender in contenders:
        contender.run()
    ours, *others = [c.results() for c in contenders]
    found = [difference(a, b) for other in others for a, b in zip(ours, other, strict=True)]
    return max((d.relative for d in found), default=0.0), all(d.ok for d in found)


def table(rows: Sequence[Row], threads: int) -> Table:
    """The rows for a terminal, with the geometric mean of the ratios."""
    from rich import box
    from rich.table import Table

    engines = list(rows[0].timings) if rows else []
    title = (
        f"{cpu_name()}, {threads} thread{'s' if threads > 1 else ''}, peak {rows[0].peak:.0f} GFLOP/s, median ms"
        if rows
        else ""
    )
    result = Table(title=title, box=box.SIMPLE_HEAD)
    result.add_column("case", no_wrap=True)
    for engine in engines:
        result.add_column(engine, justify="right", no_wrap=True)
    for heading in ("min", "GFLOP/s", "% peak", "ratio"):
        result.add_column(heading, justify="right")
    for row in rows:
        cells = [f"{row.timings[e].median * 1e3:.4g}" for e in engines]
        share = f"{100 * row.gflops('graphc') / row.peak:.0f}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        cells += [f"{row.timings['graphc'].best * 1e3:.4g}", f"{row.gflops('graphc'):.1f}", share]
        result.add_row(row.name, *cells, ratio if row.agree else "DIFFERS")
    if mean := geometric_mean(rows):
        result.add_section()
        result.add_row("geomean", *[""] * (len(engines) + 3), f"{mean:.2f}")
    return result


def geometric_mean(rows: Sequence[Row]) -> float | None:
    """Geometric mean of the ratios; None without peers."""
    ratios = [row.ratio for row in rows if row.ratio is not None]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def to_json(rows: Sequence[Row], threads: int) -> dict[str, Any]:
    """Rows, versions and CPU as plain values; times in seconds."""
    return {
        "cpu": cpu_name(),
        "threads": threads,
        "versions": versions(),
        "geomean": geometric_mean(rows),
        "rows": [
            {
                "case": row.name, "gflop": row.gflop, "peak_gflops": row.peak, "ratio": row.ratio,
                "agree": row.agree, "deviation": row.worst,
                "engines": {n: {"median": x.median, "min": x.best, "calls": x.calls} for n, x in row.timings.items()},
            }
            for row in rows
        ],
    }  # fmt: skip
