"""The phases of a compilation: how long each took, and progress as they go."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field

from ..base.records import dataclass

OnPhase = Callable[[str, int, int], None]
"""Progress: (phase, steps done, steps in all). Called when a phase starts (0 done) and as it goes."""

_LOG = logging.getLogger("graphc.compiler")


@dataclass
class Phases:
    """Times phases and reports them. `kernel_seconds`: by step, in all of the `processes` that compiled kernels."""

    on_phase: OnPhase | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    kernel_seconds: dict[str, float] = field(default_factory=dict)
    processes: int = 0

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time one phase."""
        self.progress(name, 0, 1)
        start = time.perf_counter()
        yield
        spent = time.perf_counter() - start
        self.seconds[name] = self.seconds.get(name, 0.0) + spent
        _LOG.info("%s: %.1f ms", name, spent * 1e3)
        self.progress(name, 1, 1)

    def progress(self, name: str, done: int, total: int) -> None:
        """Report how far a phase is."""
        if self.on_phase:
            self.on_phase(name, done, total)
