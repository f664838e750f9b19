"""Counters of the system are read, or the reason why they are not."""

from __future__ import annotations

import errno

import pytest

from graphc.bench import counters


def test_counts_or_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    found = counters.count(lambda: runs.append(1), 3)
    assert found.refused or (len(runs) == 3 and found.counts["instructions"] > 0)
    monkeypatch.setattr(counters, "EVENTS", {"clock": (1, 1)})  # PERF_COUNT_SW_TASK_CLOCK
    found = counters.count(lambda: sum(range(9999)), 3)
    assert found.refused or found.counts["clock"] > 0


def test_reasons() -> None:
    assert "perf_event_paranoid" in counters._reason(errno.EACCES)
    assert "virtual machines" in counters._reason(errno.ENOENT)
    assert "cannot be read" in counters._reason(errno.EMFILE)
