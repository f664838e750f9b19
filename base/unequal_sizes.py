"""Sizes that were compared while a model was read and that differ as written, though some run could make them equal.

A shape rule that fails for such sizes may hold once they are equal: `size_limits.within_limits` reads the model again
with that assumption, whichever op has the rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Pairs = deque[tuple[Any, Any]]

_MAX_PAIRS = 8
"""Comparisons that are kept: a rule compares the sizes of a few axes right before it fails."""

_recorded: ContextVar[Pairs | None] = ContextVar("recorded", default=None)


@contextmanager
def recording_unequal() -> Iterator[Pairs]:
    """Yield the last pairs of sizes that were found unequal inside the `with` block, the latest at the end."""
    pairs: Pairs = deque(maxlen=_MAX_PAIRS)
    token = _recorded.set(pairs)
    try:
        yield pairs
    finally:
        _recorded.reset(token)


def record_unequal(one: Any, other: Any) -> None:
    """Remember that two sizes were compared and differ."""
    pairs = _recorded.get()
    if pairs is not None:
        pairs.append((one, other))
