"""One case, every engine: results compared first, then timed in interleaved rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..codegen.host import cpu_name, target_for
from ..driver.compiler import compile as compile_model
from ..driver.versions import versions
from ..graph_ir.inspect.compare import difference
from .cases import Array, Case, specs_of
from .measure import Timing, interleave
from .peak import measured_peak
from .peers import Contender, RefusedModel, exact_results, graphc_contender, make_peer

if TYPE_CHECKING:
    from rich.table import Table

OnStep = Callable[[str, int, int], None]

F32 = "f32"
"""The name under which the f32 model of a quantised case is timed."""
LEAST_NOISE = 1e-4
"""Relative noise that f32 sums of some order may leave in any model."""


@dataclass(frozen=True)
class Row:
    """One case: work, the machine's peak at that time, and each engine's times.

    `worst` is the largest relative deviation; `wrong` are the engines whose results are, `refused` those that cannot
    read the model. Among the engines of a quantised case is "f32": graphc with the model it was made of.
    """

    name: str
    gflop: float
    peak: float
    timings: dict[str, Timing]
    worst: float
    wrong: frozenset[str] = frozenset()
    refused: tuple[str, ...] = ()

    def gflops(self, engine: str) -> float:
        """GFLOP/s by the median."""
        return self.gflop / self.timings[engine].median

    @property
    def is_quantized(self) -> bool:
        """Whether there is an f32 model beside it."""
        return F32 in self.timings

    @property
    def agree(self) -> bool:
        """Whether graphc is right; without an exact reference, whether all engines agree."""
        return "graphc" not in self.wrong if self.is_quantized else not self.wrong

    @property
    def ratio(self) -> float | None:
        """Best peer's median divided by graphc's: above 1 graphc is faster. None without peers.

        Of a quantised case, the best peer whose result is right.
        """
        left_out = {"graphc", F32} | (self.wrong if self.is_quantized else frozenset())
        others = [timing.median for name, timing in self.timings.items() if name not in left_out]
        return min(others) / self.timings["graphc"].median if others else None

    @property
    def gain(self) -> float | None:
        """How many times faster than its f32 model a quantised one is."""
        if not self.is_quantized:
            return None
        return self.timings[F32].median / self.timings["graphc"].median


def compare(
    case: Case,
    peers: Sequence[str],
    target: str,
    threads: int,
    rounds: int,
    seconds: float,
    report: OnStep,
) -> Row:
    """Load the case into every engine, check that they agree, and time them.

    A quantised case is checked against its exact results, and its f32 model is timed as one more engine.
    """
    report(case.name, 0, rounds)
    arrays = case.arrays()
    model = compile_model(case.model, target, threads, specs_of(arrays))
    contenders, refused = [graphc_contender(model, arrays)], []
    for name in peers:
        try:
            contenders.append(make_peer(name, case.onnx(), arrays, threads))
        except RefusedModel:
            if case.origin is None:
                raise
            refused.append(name)
    if case.origin is not None:
        origin = compile_model(case.origin, target, threads, specs_of(arrays))
        contenders.append(graphc_contender(origin, arrays, F32))
    for contender in contenders:
        contender.run()
    worst, wrong = (
        _deviation(contenders)
        if case.origin is None
        else _distance(contenders, exact_results(case.onnx(), arrays))
    )
    peak = measured_peak(target_for(target))
    timings = interleave(
        {c.name: c.run for c in contenders},
        rounds,
        seconds,
        lambda done, total: report(case.name, done, total),
    )
    gflop = model.stats["gflop"]
    return Row(case.name, gflop, peak * threads, timings, worst, wrong, tuple(refused))


def _deviation(contenders: Sequence[Contender]) -> tuple[float, frozenset[str]]:
    """The largest deviation from graphc, and the engines that differ from it."""
    ours, *others = [(c.name, c.results()) for c in contenders]
    found = [
        (name, difference(a, b))
        for name, other in others
        for a, b in zip(ours[1], other, strict=True)
    ]
    wrong = frozenset(name for name, d in found if not d.ok)
    return max((d.relative for _, d in found), default=0.0), wrong


def _distance(
    contenders: Sequence[Contender], exact: Sequence[Array]
) -> tuple[float, frozenset[str]]:
    """graphc's distance from the exact results, and the engines farther from them than the f32 model is.

    Values between two integers may be rounded either way by sums in another order, and later layers go on from there:
    that is noise below that of quantisation. Saturated sums are far above it.
    """
    far = {c.name: _relative_rms(c.results(), exact) for c in contenders}
    bound = max(far[F32], LEAST_NOISE)
    return far["graphc"], frozenset(name for name, distance in far.items() if distance > bound)


def _relative_rms(actual: Sequence[Array], expected: Sequence[Array]) -> float:
    """Root mean square of the differences over that of the expected values, both over all outputs."""
    ours, theirs = (
        np.concatenate([np.ravel(x).astype(np.float64) for x in some])
        for some in (actual, expected)
    )
    scale = float(np.sqrt(np.mean(theirs**2))) or 1.0
    distance = float(np.sqrt(np.mean((ours - theirs) ** 2))) / scale
    return distance if math.isfinite(distance) else math.inf


def table(rows: Sequence[Row], threads: int) -> Table:
    """The rows for a terminal, with the geometric mean of the ratios."""
    from rich import box
    from rich.table import Table

    engines = list(dict.fromkeys(e for row in rows for e in (*row.timings, *row.refused)))
    engines.sort(key=lambda e: e == F32)
    peak = f"peak {rows[0].peak:.0f} GFLOP/s" if rows else ""
    plural = "s" if threads > 1 else ""
    result = Table(
        title=f"{cpu_name()}, {threads} thread{plural}, {peak}, median ms" if rows else "",
        box=box.SIMPLE_HEAD,
    )
    headings, cells_of = _QUANTIZED if F32 in engines else _PLAIN
    result.add_column("case", no_wrap=True)
    for engine in engines:
        result.add_column(engine, justify="right", no_wrap=True)
    for heading in headings:
        result.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        result.add_row(row.name, *[_time(row, e) for e in engines], *cells_of(row))
    if mean := geometric_mean(rows):
        result.add_section()
        result.add_row("geomean", *[""] * (len(engines) + len(headings) - 1), f"{mean:.2f}")
    if any(row.is_quantized and row.wrong for row in rows):
        result.caption = "!: farther from the exact result than the f32 model is; not in the ratio"
    return result


def _time(row: Row, engine: str) -> str:
    """Milliseconds, `!` where a quantised result is wrong."""
    if engine not in row.timings:
        return "refused" if engine in row.refused else ""
    mark = "!" if row.is_quantized and engine in row.wrong else ""
    return f"{row.timings[engine].median * 1e3:.4g}{mark}"


def _plain_cells(row: Row) -> tuple[str, ...]:
    share = f"{100 * row.gflops('graphc') / row.peak:.0f}"
    best = f"{row.timings['graphc'].best * 1e3:.4g}"
    return best, f"{row.gflops('graphc'):.1f}", share, _ratio(row.ratio if row.agree else math.nan)


def _quantized_cells(row: Row) -> tuple[str, ...]:
    return _ratio(row.gain), _ratio(row.ratio if row.agree else math.nan)


def _ratio(value: float | None) -> str:
    if value is None:
        return ""
    return "DIFFERS" if math.isnan(value) else f"{value:.2f}"


_PLAIN = (("min", "GFLOP/s", "% peak", "ratio"), _plain_cells)
_QUANTIZED = (("gain", "ratio"), _quantized_cells)


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
                "agree": row.agree, "deviation": row.worst, "gain": row.gain, "wrong": sorted(row.wrong),
                "refused": row.refused,
                "engines": {n: {"median": x.median, "min": x.best, "calls": x.calls} for n, x in row.timings.items()},
            }
            for row in rows
        ],
    }  # fmt: skip
