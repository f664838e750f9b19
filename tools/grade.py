"""Evaluates the cost model: its ranking against measured times, and the time lost by its choices."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

from ..base.records import dataclass
from .variant_program import Trial


@dataclass(frozen=True)
class Grade:
    """One problem: how many variants were measured, the rank correlation of predicted with measured times (-1 to 1;
    NaN if either ranks all as equal), and the seconds of the compiler's choice and of the best in its layouts."""

    problem: str
    variants: int
    correlation: float
    chosen: float
    best: float
    best_variant: str

    @property
    def lost(self) -> float:
        """Time the choice loses against the best, as a share of the best."""
        return self.chosen / self.best - 1


def grades(trials: Sequence[Trial]) -> list[Grade]:
    """A grade for every problem of which the compiler's choice and another variant were timed."""
    problems: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.seconds is not None:
            problems.setdefault(trial.variant.problem, []).append(trial)
    return [
        _grade(problem, found)
        for problem, found in problems.items()
        if len(found) > 1 and any(trial.variant.chosen for trial in found)
    ]


def _grade(problem: str, trials: Sequence[Trial]) -> Grade:
    times = [trial.seconds or 0.0 for trial in trials]
    chosen = min((t for t in trials if t.variant.chosen), key=_seconds)
    # Layouts are chosen for the whole graph: others may be faster here and need a reorder elsewhere.
    best = min((t for t in trials if t.variant.layout == chosen.variant.layout), key=_seconds)
    return Grade(
        problem,
        len(trials),
        rank_correlation([trial.variant.predicted or 0.0 for trial in trials], times),
        _seconds(chosen),
        _seconds(best),
        f"{best.variant.layout} {best.variant.schedule}",
    )


def _seconds(trial: Trial) -> float:
    return trial.seconds or 0.0


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's: the correlation of the ranks of two samples, equal values sharing their mean rank."""
    a, b = (_ranks(x) - (len(x) - 1) / 2 for x in (first, second))
    size = math.sqrt(float(np.dot(a, a) * np.dot(b, b)))
    return float(np.dot(a, b)) / size if size else math.nan


def _ranks(values: Sequence[float]) -> np.ndarray:
    _, groups, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    means = np.cumsum(counts) - (counts + 1) / 2
    return np.asarray(means[groups], np.float64)


def overall(found: Sequence[Grade]) -> tuple[float, float]:
    """(median rank correlation, time lost by all choices together as a share of the best ones' time)."""
    known = [grade.correlation for grade in found if not math.isnan(grade.correlation)]
    best = sum(grade.best for grade in found)
    lost = sum(grade.chosen for grade in found) / best - 1 if best else 0.0
    return (statistics.median(known) if known else math.nan), lost


def by_kind(found: Sequence[Grade]) -> dict[str, list[Grade]]:
    """Return the grades by the kind of their problem, which is its first word: matmul, conv, attention, rows."""
    kinds: dict[str, list[Grade]] = {}
    for grade in found:
        kinds.setdefault(grade.problem.partition(" ")[0], []).append(grade)
    return kinds
