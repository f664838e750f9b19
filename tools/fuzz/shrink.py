"""A failing case made as small as it gets: edits are tried in a worker process and kept while the failure stays."""

from __future__ import annotations

import time
from collections.abc import Callable

from .case import Case
from .edit import candidates, size_of
from .outcome import Outcome
from .workers import Worker

SECONDS = 60.0
"""Time for one case."""


def shrink(
    case: Case, outcome: Outcome, worker: Worker, seconds: float = SECONDS
) -> tuple[Case, Outcome]:
    """The smallest case found that fails like this one, and how it fails."""
    return shrink_by(case, outcome, lambda c: worker.check(c.to_json()), seconds)


def shrink_by(
    case: Case, outcome: Outcome, check: Callable[[Case], Outcome], seconds: float = SECONDS
) -> tuple[Case, Outcome]:
    """Shrink a case, like `shrink`, with any check."""
    end = time.monotonic() + seconds
    smaller = True
    while smaller:
        smaller = False
        for candidate in candidates(case):
            if time.monotonic() > end:
                return case, outcome
            if size_of(candidate) >= size_of(case):
                continue
            found = check(candidate)
            if found.is_alike(outcome):
                case, outcome, smaller = candidate, found, True
                break
    return case, outcome
