"""Progress of long operations, on stderr: a bar on a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ..base.durations import shown_time

HEADING_WIDTH = 9
SIGN_OF_LIFE_SECONDS = 5.0


class Report(Protocol):
    """Called when a phase starts (0 done), as it goes, and when it ends (done == total)."""

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Show that `done` of `total` steps of `phase` are complete."""


@contextmanager
def progress(quiet: bool) -> Iterator[Report]:
    """A progress report suitable for stderr."""
    if quiet:
        yield lambda phase, done, total: None
    elif sys.stderr.isatty():
        with _bar() as report:
            yield report
    else:
        yield _Lines()


class _Lines:
    """One line per phase, with its time; and one every few seconds of a long phase."""

    def __init__(self) -> None:
        self._started: dict[str, float] = {}
        self._last = time.perf_counter()

    def __call__(self, phase: str, done: int, total: int) -> None:
        now = time.perf_counter()
        if done == 0:
            self._started[phase] = self._last = now
        elif done >= total and phase in self._started:
            spent = now - self._started.pop(phase)
            self._print(phase, f"{shown_time(spent):>10}")
        elif now - self._last > SIGN_OF_LIFE_SECONDS and phase in self._started:
            spent = now - self._started[phase]
            left = spent * (total - done) / done
            self._print(phase, f"{done} of {total}, {spent:.0f} s, about {left:.0f} s left")

    def _print(self, phase: str, text: str) -> None:
        self._last = time.perf_counter()
        print(f"{phase:<{HEADING_WIDTH}} {text}", file=sys.stderr, flush=True)


@contextmanager
def _bar() -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(24),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        tasks: dict[str, int] = {}

        def report(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bar.add_task(f"{phase:<{HEADING_WIDTH}}", total=total)
            bar.update(tasks[phase], completed=done, total=total)  # type: ignore[arg-type]

        yield report
