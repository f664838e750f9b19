"""The summary of a compilation, as text and as JSON, and the closing verdict line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..base.memory_limit import shown_bytes
from ..base.records import dataclass

if TYPE_CHECKING:
    from ..driver.compiler import Outcome
    from ..runtime.metadata import Metadata


@dataclass(frozen=True)
class Verdict:
    """One run, as a line for a bug report. `peak` is the machine's measured multiply-add GFLOP/s on one core."""

    versions: Mapping[str, str]
    cpu: str
    isa: str
    threads: int
    model: str
    model_hash: str
    seconds: float
    gflop: float
    peak: float
    outcome: str
    ok: bool

    @property
    def gflops(self) -> float:
        """GFLOP/s of the run."""
        return self.gflop / self.seconds if self.seconds else 0.0

    @property
    def share_of_peak(self) -> float:
        """GFLOP/s as a share of the peak of the threads in use."""
        return self.gflops / (self.peak * self.threads)

    def __str__(self) -> str:
        software = " ".join(f"{name} {version}" for name, version in self.versions.items())
        return (
            f"{'ok' if self.ok else 'MISMATCH'}: {self.model} {self.model_hash[:12]}, {self.seconds * 1e3:.4g} ms, "
            f"{self.gflops:.1f} GFLOP/s, {self.share_of_peak:.0%} of {self.peak * self.threads:.0f}; {self.outcome}; "
            f"{software}; {self.cpu}, {self.isa}, {self.threads} thread{'s' if self.threads > 1 else ''}"
        )

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {**asdict(self), "gflops": self.gflops, "share_of_peak": self.share_of_peak}


def summary_lines(
    meta: Metadata, verbose: bool, timing: Sequence[tuple[str, str]] = ()
) -> list[str]:
    """The summary of a compiled model, with the rows of `timing_rows`; with `verbose`, a line per kernel call."""
    stats = meta.stats
    layouts = (
        ", ".join(f"{name} x{count}" for name, count in _layout_counts(stats["layouts"]).items())
        or "plain only"
    )
    rows = [
        (
            "model",
            f"{meta.model}: {', '.join(map(repr, meta.arguments))} -> {', '.join(map(repr, meta.results))}",
        ),
        (
            "ops",
            f"{stats['ops']} in, {len(stats['calls'])} calls of {stats['kernels']} kernels out",
        ),
        ("layouts", layouts),
        *(("reorders", _reorders(moved)) for moved in [stats.get("reorders")] if moved),
        ("constants", shown_bytes(stats["constants_bytes"])),
        (
            "arena",
            f"{shown_bytes(stats['arena_bytes'])} (live at once: {shown_bytes(stats['arena_lower_bound'])})",
        ),
        ("work", f"{stats['gflop']:.4g} GFLOP"),
        *timing,
    ]
    lines = [f"{name:<9} {text}" for name, text in rows]
    if verbose:
        lines += [f"  {call['op']:<24} {call['kernel']}  {call['note']}" for call in stats["calls"]]
    return lines


def timing_rows(outcome: Outcome) -> list[tuple[str, str]]:
    """The time of a compilation by phase and by compilation step, or that it came from the cache."""
    phases = outcome.phases
    rows = [("phases", _milliseconds(phases.seconds))]
    if phases.kernel_seconds:
        count = phases.processes
        where = f" in {count} processes together" if count > 1 else ""
        rows.append(("kernels", f"{_milliseconds(phases.kernel_seconds)}{where}"))
    if outcome.from_cache:
        rows.append(("cache", "had it; --no-cache compiles it anew"))
    elif outcome.not_cached:
        rows.append(("cache", f"does not keep it: {outcome.not_cached}"))
    return rows


def _milliseconds(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {spent * 1e3:.0f}" for name, spent in seconds.items()) + " ms"


def _reorders(moved: dict[str, int]) -> str:
    return (
        f"{moved['inside']} inside ({shown_bytes(moved['inside_bytes'])}), "
        f"{moved['edges']} at the edges ({shown_bytes(moved['edge_bytes'])})"
    )


def _layout_counts(layouts: list[dict[str, Any]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for layout in layouts:
        for name in layout["formats"]:
            if any(ch.isdigit() for ch in name):
                counts[name] = counts.get(name, 0) + 1
    return counts
