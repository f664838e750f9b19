"""Interleaved timing: contenders take turns, and none starts while threads of another spin."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from graphc.bench import measure


class Clock:
    """`time` of a process whose threads spin for `spinning` seconds after whatever ran last."""

    def __init__(self, spinning: float) -> None:
        self.now = self.cpu = self.until = 0.0
        self.spinning = spinning
        self.sleeping = False

    def work(self) -> None:
        assert self.now >= self.until or not self.sleeping, "started beside spinning threads"
        self.sleeping = False
        self.now += 0.001
        self.until = self.now + self.spinning

    def sleep(self, seconds: float) -> None:
        self.sleeping = True
        self.cpu += max(0.0, min(seconds, self.until - self.now))
        self.now += seconds

    def time(self) -> SimpleNamespace:
        return SimpleNamespace(
            sleep=self.sleep, process_time=lambda: self.cpu, perf_counter=lambda: self.now
        )


@pytest.mark.parametrize("spinning", [0.0, 0.001, 0.035])
def test_contenders_start_when_the_threads_of_the_last_one_sleep(
    monkeypatch: pytest.MonkeyPatch, spinning: float
) -> None:
    clock = Clock(spinning)
    monkeypatch.setattr(measure, "time", clock.time())
    timings = measure.interleave({"a": clock.work, "b": clock.work}, 2, 0.01)
    assert [timing.median for timing in timings.values()] == pytest.approx([0.001, 0.001])


def test_threads_that_never_sleep_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(0.0)
    monkeypatch.setattr(measure, "time", clock.time())
    monkeypatch.setattr(clock, "cpu", 0.0)
    ticks = itertools.count()
    measure.time.process_time = lambda: next(ticks)
    measure.interleave({"a": clock.work}, 2, 0.01)
    assert clock.now < 1


_PINNED = """
import os, threading
from graphc.bench.measure import pin_to
stop = threading.Event()
threading.Thread(target=stop.wait).start()
pin_to(1)
threading.Thread(target=stop.wait).start()
print(*{len(os.sched_getaffinity(int(thread))) for thread in os.listdir("/proc/self/task")})
stop.set()
"""


def test_threads_that_run_already_are_pinned_too() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PINNED], capture_output=True, text=True, env=os.environ
    )
    assert done.stdout == "1\n", done.stderr
