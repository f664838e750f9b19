"""Two versions of a problem against each other: both checked, then timed in turn, with an interval of confidence."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from ..base.errors import UserError
from ..base.records import dataclass
from ..bench.peers import Contender, graphc_contender
from ..graph_ir.inspect.compare import difference
from ..runtime.executor import CompiledModel
from .folder import Version
from .problem import Problem
from .trial import source_graph

ROUNDS = 41
INTERVAL = (13, 27)
"""Ranks of 41 ratios, from 0, between which their median is with a probability of 97 %: Binomial(41, 1/2)."""


@dataclass(frozen=True)
class Comparison:
    """Seconds of both (medians of rounds), and the ratio first / second of a round: its median and interval of 97 %."""

    first: float
    second: float
    ratio: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Return which one is faster, or that the rounds do not tell."""
        if self.low <= 1 <= self.high:
            return "no difference that 41 rounds can tell"
        return "the second is faster" if self.low > 1 else "the first is faster"


def compare(
    versions: Sequence[Version], problem: Problem, threads: int, seconds: float
) -> Comparison:
    """Check two versions of one problem against NumPy, then time them in turn. Raise UserError if one is wrong."""
    sizes = versions[0].sizes
    arrays = problem.arrays(sizes)
    expected = source_graph(problem, sizes).evaluate([*arrays.values()])
    with ExitStack() as models:
        runs = []
        for version in versions:
            model = models.enter_context(CompiledModel(version.artifact, threads))
            contender = graphc_contender(model, arrays)
            _check(version.label, contender, expected)
            runs.append(contender.run)
        return _timed(runs, seconds)


def _check(label: str, contender: Contender, expected: Sequence[object]) -> None:
    for result, wanted in zip(contender.results(), expected, strict=True):
        found = difference(result, wanted)  # type: ignore[arg-type]
        if not found.ok:
            raise UserError(f"{label} is wrong: {found}; its time would say nothing")


def _timed(runs: Sequence[Callable[[], object]], seconds: float) -> Comparison:
    calls = [max(1, int(seconds / (2 * ROUNDS) / _seconds(run, 3))) for run in runs]
    samples: list[list[float]] = [[], []]
    collecting = gc.isenabled()
    gc.disable()
    try:
        for number in range(ROUNDS):
            for turn in (0, 1):
                which = (number + turn) % 2
                samples[which].append(_seconds(runs[which], calls[which]))
    finally:
        if collecting:
            gc.enable()
    ratios = sorted(a / b for a, b in zip(*samples, strict=True))
    first, second = map(statistics.median, samples)
    low, high = (ratios[rank] for rank in INTERVAL)
    return Comparison(first, second, statistics.median(ratios), low, high)


def _seconds(run: Callable[[], object], calls: int) -> float:
    run()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls
