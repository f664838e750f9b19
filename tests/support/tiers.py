"""The exhaustive tier: of a large grid whose cases differ little, an ordinary run takes those whose day it is.

Each day takes one case in `DAYS` of every test marked `exhaustive`, so any `DAYS` days in a row take all of them.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

import pytest

DAYS = 8


def of_day(names: Iterable[str], day: datetime.date) -> set[str]:
    """The cases of one test that a day takes: every `DAYS`-th of them as their hashes order them."""
    ordered = sorted(names, key=_hash)
    first = (day.toordinal() + len(ordered)) % min(DAYS, len(ordered) or 1)
    return set(ordered[first::DAYS])


def split(
    items: Sequence[pytest.Item], taken: Callable[[Iterable[str]], set[str]]
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The items to run, and those left to other days."""
    grids = defaultdict(list)
    for item in items:
        if item.get_closest_marker("exhaustive"):
            grids[item.nodeid.partition("[")[0]].append(item.nodeid)
    others = {name for names in grids.values() for name in set(names) - taken(names)}
    return (
        [item for item in items if item.nodeid not in others],
        [item for item in items if item.nodeid in others],
    )


def takes_all(config: pytest.Config) -> bool:
    """Return true for a run with --exhaustive, and for one that names tests or rewrites their golden files."""
    named = config.getoption("keyword") or any("::" in word for word in config.args)
    return bool(named or config.getoption("--exhaustive") or config.getoption("--update-golden"))


def _hash(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=8).digest()
