"""Figures of a call of `generate`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..base.records import dataclass


@dataclass
class Usage:
    """Figures of the last call of `generate`: tokens of the prompt that were fed and reused, new ones, and seconds.

    `guessed` tokens were looked up and computed beside others; the text went on with `right` of them.
    """

    prompt: int = 0
    reused: int = 0
    new: int = 0
    guessed: int = 0
    right: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the seconds that the block takes to a field."""
        start = time.perf_counter()
        yield
        setattr(self, name, getattr(self, name) + time.perf_counter() - start)

    @property
    def prefill_rate(self) -> float:
        """Tokens of the prompt per second."""
        return self.prompt / self.prefill_seconds if self.prefill_seconds else 0.0

    @property
    def decode_rate(self) -> float:
        """Tokens per second after the first."""
        return (self.new - 1) / self.decode_seconds if self.decode_seconds else 0.0
