"""Many cases of one seed: counted, their failures collected, and a file from which a run goes on where it
was stopped."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

from ...base.errors import UserError
from ...base.pipes import read_file
from ...base.records import dataclass
from ...base.whole_file import write_file
from .outcome import RIGHT, Outcome
from .workers import Job, Workers

CHECKPOINT = 100
"""Cases between two lines of the resume file."""


@dataclass
class Tally:
    """Counts of the outcomes of the first `done` cases of a seed.

    `refusals`: sentences of the compiler and of formats, without the parts that differ from case to case, and their
    counts; `failures`: the index and the outcome of each. `seconds`: of all cases, in their processes.
    """

    seed: int
    done: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, Outcome]] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, index: int, outcome: Outcome) -> None:
        """Count the next case."""
        self.done = index + 1
        self.counts[outcome.kind] += 1
        self.seconds += outcome.seconds
        for refusal in outcome.refusals:
            self.refusals[refusal.partition(":")[0]] += 1
        if outcome.is_failure:
            self.failures.append((index, outcome))
        elif outcome.kind != RIGHT:
            self.refusals[outcome.signature] += 1

    def to_json(self) -> dict[str, Any]:
        """Return the tally as JSON."""
        facts = dict(vars(self))
        return {**facts, "failures": [(index, vars(outcome)) for index, outcome in self.failures]}

    @staticmethod
    def from_json(facts: dict[str, Any]) -> Tally:
        """Read the JSON that `to_json` wrote."""
        failures = [(index, Outcome.from_json(outcome)) for index, outcome in facts["failures"]]
        counts, refusals = Counter(facts["counts"]), Counter(facts["refusals"])
        return Tally(**{**facts, "counts": counts, "refusals": refusals, "failures": failures})


def run_campaign(
    tally: Tally,
    count: int,
    workers: Workers,
    on_case: Callable[[int, Outcome], None],
    resume: Path | None = None,
    routes: tuple[str, ...] | None = None,
) -> None:
    """Check the cases from `tally.done` to `count`; `on_case` is called for each in order, after it is counted.

    `routes`: those that all cases take instead of random ones.
    `resume` receives the tally now and then, and at the end however that comes. Raise UserError if it cannot be
    written.
    """
    how = {} if routes is None else {"routes": routes}
    jobs: Iterator[tuple[int, Job]] = (
        (index, {"seed": tally.seed, "index": index, **how}) for index in range(tally.done, count)
    )
    waiting: dict[int, Outcome] = {}
    try:
        for number, outcome in workers.check_all(jobs):
            waiting[number] = outcome
            while tally.done in waiting:
                index, next_one = tally.done, waiting.pop(tally.done)
                tally.add(index, next_one)
                on_case(index, next_one)
                if resume is not None and tally.done % CHECKPOINT == 0:
                    write_tally(resume, tally)
    finally:
        if resume is not None:
            write_tally(resume, tally)


def write_tally(path: Path, tally: Tally) -> None:
    """Replace the file as a whole. Raise UserError if the system refuses it."""
    write_file(path, json.dumps(tally.to_json()) + "\n")


def read_tally(path: Path, seed: int) -> Tally:
    """The tally of a seed in a file, a new one where there is no file. Raise UserError for another seed or no tally."""
    if not path.exists():
        return Tally(seed)
    try:
        tally = Tally.from_json(json.loads(read_file(path)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"'{path}' is not a file of `graphc dev fuzz --resume` ({error}); give another"
        ) from error
    if tally.seed != seed:
        raise UserError(
            f"'{path}' is of seed {tally.seed}, got --seed {seed}; give that seed or another file"
        )
    return tally
