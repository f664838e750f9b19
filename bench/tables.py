"""Measured rows as a table for a terminal, and as plain values for JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ..base.records import dataclass
from ..codegen.host import cpu_name
from ..codegen.llvm_info import host_cpu_name
from ..driver.versions import versions
from .engines import EAGER, F32, FIXED, FROZEN, MODULE, Roof, Row, geometric_mean
from .measure import Timing
from .peers import PACKAGES
from .roofline import COMPUTE

if TYPE_CHECKING:
    from rich.table import Table


def table(rows: Sequence[Row], threads: int) -> Table:
    """The rows for a terminal, with the geometric mean of the ratios."""
    from rich import box
    from rich.table import Table

    engines = list(dict.fromkeys(e for row in rows for e in (*row.timings, *row.refused)))
    engines.sort(key=lambda e: e in (F32, FIXED))
    peak = f"peak {rows[0].peak:.0f} GFLOP/s" if rows else ""
    plural = "s" if threads > 1 else ""
    columns = _columns(rows, engines)
    result = Table(
        title=f"{cpu_name()}, {threads} thread{plural}, {peak}, median {columns.unit}"
        if rows
        else "",
        box=box.SIMPLE_HEAD,
        padding=columns.padding,
    )
    is_cut = columns.name_width is not None
    result.add_column("case", no_wrap=is_cut, max_width=columns.name_width)
    for heading in (*engines, *columns.headings):
        longest = max(map(len, heading.split("\n")))
        width = columns.min_column_width and max(columns.min_column_width, longest)
        result.add_column(heading, justify="right", no_wrap=True, min_width=width)
    headings = columns.headings
    for row in rows:
        times = [_time(row, engine, columns) for engine in engines]
        result.add_row(row.name, *times, *columns.cells_of(row))
    if mean := geometric_mean(rows):
        means = [""] * (len(engines) + len(headings) - 1) + [f"{mean:.2f}"]
        if MODULE in engines:
            means[-3:-1] = [_ratio(geometric_mean(rows, engine)) for engine in (MODULE, FROZEN)]
        result.add_section()
        result.add_row("geomean", *means)
    if any(row.has_reference and row.wrong for row in rows):
        result.caption = columns.caption
    if any(row.to_fixed is not None for row in rows):
        result.caption = _dynamic_caption(rows)
    return result


def _dynamic_caption(rows: Sequence[Row]) -> str:
    """Return the caption of a table of dynamic dimensions: the ratio to graphc's own static models, and the
    worst cases."""
    found = sorted((row.to_fixed, row.name) for row in rows if row.to_fixed is not None)
    (percentile, _), (most, worst) = found[math.ceil(0.9 * len(found)) - 1], found[-1]
    text = (
        "own: time relative to graphc's model of that size, "
        f"{percentile:.2f} at the 90th percentile, {most:.2f} at worst ({worst})"
    )
    if ratios := [(row.ratio, row.name) for row in rows if row.ratio is not None]:
        text += "; least ratio {:.2f} ({})".format(*min(ratios))
    return text


@dataclass(frozen=True)
class _Columns:
    """The columns that follow the times of a table, and the unit of the times.

    Single operators are many, with long names: their table cuts names to fit a terminal of 80 columns. Others may wrap.
    """

    headings: tuple[str, ...]
    cells_of: Callable[[Row], tuple[str, ...]]
    unit: str = "ms"
    padding: tuple[int, int, int, int] = (0, 1, 0, 1)
    name_width: int | None = None
    min_column_width: int | None = None
    caption: str = ""


def _columns(rows: Sequence[Row], engines: Sequence[str]) -> _Columns:
    if EAGER in engines:
        return _MODULES
    if F32 in engines:
        return _QUANTIZED
    if FIXED in engines:
        return _OPEN
    return _OPERATORS if any(row.roof or "graphc" in row.refused for row in rows) else _PLAIN


def _time(row: Row, engine: str, columns: _Columns) -> str:
    """Time in the table's unit, `!` where a quantized result is wrong, and the precision if it is not that of the
    model."""
    if engine not in row.timings:
        return "refused" if engine in row.refused else ""
    mark = "!" if row.has_reference and engine in row.wrong else ""
    value = row.timings[engine].median * {"ms": 1e3, "us": 1e6}[columns.unit]
    if (used := row.precisions.get(engine, "f32")) != "f32":
        mark += f" {used}"
    return f"{value:.0f}{mark}" if value >= 1e4 else f"{value:.4g}{mark}"


def _plain_cells(row: Row) -> tuple[str, ...]:
    share = f"{100 * row.gflops('graphc') / row.peak:.0f}"
    best = f"{row.timings['graphc'].best * 1e3:.4g}"
    return best, f"{row.gflops('graphc'):.1f}", share, _ratio(row.ratio if row.agree else math.nan)


def _module_cells(row: Row) -> tuple[str, ...]:
    ratios = (row.ratio_of(MODULE), row.ratio_of(FROZEN), row.ratio)
    return tuple(_ratio(ratio if row.agree else math.nan) for ratio in ratios)


def _quantized_cells(row: Row) -> tuple[str, ...]:
    return _share_of_roof(row), _ratio(row.gain), _ratio(row.ratio if row.agree else math.nan)


def _dynamic_cells(row: Row) -> tuple[str, ...]:
    bits = {True: "same", False: "differ", None: ""}[row.same_bits]
    return _ratio(row.to_fixed), bits, _ratio(row.ratio if row.agree else math.nan)


def _operator_cells(row: Row) -> tuple[str, ...]:
    """The level that bounds the operator with its least time, what share of the time that is, and the ratio."""
    if row.roof is None:
        return "", "", "refused"
    roof = row.roof.seconds
    least = f"{roof * 1e6:.3g}" if roof < 1e-3 else f"{roof * 1e6:.0f}"
    level = "flops" if row.roof.name == COMPUTE else row.roof.name
    peers = _ratio(row.ratio if row.agree else math.nan) or ("no peer" if row.refused else "")
    return f"{level} {least}", _share_of_roof(row), peers


def _share_of_roof(row: Row) -> str:
    """The least time that the roof allows, in percent of the time taken."""
    if row.roof is None or "graphc" not in row.timings:
        return ""
    return f"{100 * row.of_roof:.0f}"


def _ratio(value: float | None) -> str:
    if value is None:
        return ""
    return "DIFFERS" if math.isnan(value) else f"{value:.2f}"


_PLAIN = _Columns(("min", "GFLOP/s", "% peak", "ratio"), _plain_cells)
_OPEN = _Columns(("own", "bits", "ratio"), _dynamic_cells, "us", (0, 1, 0, 0), min_column_width=4)
_MODULES = _Columns(
    ("module\nratio", "frozen\nratio", "ratio"),
    _module_cells,
    padding=(0, 0, 0, 0),
    min_column_width=5,
    caption="!: not what PyTorch itself computes; not in the ratio",
)
_QUANTIZED = _Columns(
    ("%", "gain", "ratio"),
    _quantized_cells,
    padding=(0, 1, 0, 0),
    caption="!: farther from the exact result than the f32 model is; not in the ratio",
)
_OPERATORS = _Columns(("roof", "%", "ratio"), _operator_cells, "us", (0, 1, 0, 0), 28, 4)


def to_json(rows: Sequence[Row], threads: int) -> dict[str, Any]:
    """Rows, versions, CPU and date as plain values; times in seconds."""
    return {
        "cpu": f"{cpu_name()} ({host_cpu_name()})",
        "threads": threads,
        "date": date.today().isoformat(),
        "versions": {**versions(), **_peer_versions(rows)},
        "geomean": geometric_mean(rows),
        "rows": [
            {
                "case": row.name, "gflop": row.gflop, "peak_gflops": row.peak, "ratio": row.ratio,
                "agree": row.agree, "deviation": row.worst, "gain": row.gain, "wrong": sorted(row.wrong),
                "refused": dict(row.refused), "to_fixed": row.to_fixed, "same_bits": row.same_bits,
                "precisions": dict(row.precisions),
                "roof": row.roof and {"name": row.roof.name, "seconds": row.roof.seconds},
                "engines": {n: {"median": x.median, "min": x.best, "calls": x.calls} for n, x in row.timings.items()},
            }
            for row in rows
        ],
    }  # fmt: skip


def _peer_versions(rows: Sequence[Row]) -> dict[str, str]:
    """Package -> version, of the other engines that were timed."""
    timed = {name for row in rows for name in row.timings}
    return {package: version(package) for name, package in PACKAGES.items() if name in timed}


def row_of(facts: Mapping[str, Any]) -> Row:
    """A row from its plain values in `to_json`. Raise KeyError or TypeError for others."""
    timings = {
        name: Timing(x["median"], x["min"], x["calls"]) for name, x in facts["engines"].items()
    }
    return Row(
        facts["case"], facts["gflop"], facts["peak_gflops"], timings, facts["deviation"],
        frozenset(facts["wrong"]), facts["refused"], facts["roof"] and Roof(**facts["roof"]),
        facts["same_bits"], facts["precisions"],
    )  # fmt: skip
