"""Ablation: the contribution of each optimization, measured by turning off one switch at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.errors import InternalError
from ..base.options import SWITCHES
from ..driver.compiler import compile as compile_model
from ..graph_ir.inspect.compare import difference
from .cases import Case, specs_of
from .engines import OnStep
from .measure import Timing, interleave
from .peers import graphc_contender

if TYPE_CHECKING:
    from rich.table import Table

FULL = "all on"


def ablate(
    case: Case, target: str, threads: int, rounds: int, seconds: float, report: OnStep
) -> dict[str, Timing]:
    """Times by variant: `all on`, then `no-SWITCH` for each switch. Raise InternalError if results differ."""
    report(case.name, 0, rounds)
    arrays = case.arrays()
    specs = specs_of(arrays)
    variants: dict[str, tuple[str, ...]] = {FULL: (), **{f"no-{s}": (s,) for s in SWITCHES}}
    contenders = [
        graphc_contender(
            compile_model(case.model, target, threads, specs, disabled=off), arrays, name
        )
        for name, off in variants.items()
    ]
    for contender in contenders:
        contender.run()
    full, *others = [c.results() for c in contenders]
    for contender, results in zip(contenders[1:], others, strict=True):
        for ours, theirs in zip(full, results, strict=True):
            found = difference(theirs, ours)
            if not found.ok:
                raise InternalError(
                    f"{case.name} with {contender.name} computes something else: {found}"
                )
    return interleave(
        {c.name: c.run for c in contenders},
        rounds,
        seconds,
        lambda done, total: report(case.name, done, total),
    )


def ablation_table(rows: dict[str, dict[str, Timing]]) -> Table:
    """A row per case: the time with everything on, and the slowdown without each switch."""
    from rich import box
    from rich.table import Table

    result = Table(title="slowdown with one optimization off", box=box.SIMPLE_HEAD)
    result.add_column("case", no_wrap=True)
    result.add_column(f"{FULL}, ms", justify="right")
    names = [f"no-{switch}" for switch in SWITCHES]
    for name in names:
        result.add_column(name, justify="right")
    for case, timings in rows.items():
        base = timings[FULL].median
        slower = [f"{timings[name].median / base:.2f}" for name in names]
        result.add_row(case, f"{base * 1e3:.4g}", *slower)
    return result


def ablation_json(rows: dict[str, dict[str, Timing]]) -> list[dict[str, Any]]:
    """The same as plain values; times in seconds."""
    return [
        {"case": case, "median": {name: timing.median for name, timing in timings.items()}}
        for case, timings in rows.items()
    ]
