"""Two versions of a problem against each other: both checked, then timed in turn, with an interval of confidence."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack

from ..base.records import dataclass
from ..bench.measure import interleave
from ..bench.peers import graphc_contender
from ..runtime.executor import CompiledModel
from .folder import Version
from .problem import Problem
from .trial import check, source_graph

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
    arrays, graph = problem.arrays(sizes), source_graph(problem, sizes)
    with ExitStack() as models:
        runs = {}
        for number, version in enumerate(versions):
            model = models.enter_context(CompiledModel(version.artifact, threads))
            contender = graphc_contender(model, arrays)
            check(version.label, graph, arrays, contender)
            runs[str(number)] = contender.run
        first, second = interleave(runs, ROUNDS, seconds).values()
    ratios = sorted(a / b for a, b in zip(first.rounds, second.rounds, strict=True))
    low, high = (ratios[rank] for rank in INTERVAL)
    return Comparison(first.median, second.median, statistics.median(ratios), low, high)
