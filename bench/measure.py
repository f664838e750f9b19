"""Interleaved timing of contenders in one process: every round runs all of them, so noise affects all alike."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from ..base.records import dataclass

REST_SECONDS = 0.002
"""Seconds the process must be idle between two contenders, because threads of the last one may still spin."""

MAX_RESTS = 50
"""Times that is waited for, 0.1 s in all: ONNX Runtime's threads spin for 35 ms where `pause` takes long."""


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: median over rounds of the round's median, and the fastest call.

    `rounds`: the median of each round.
    """

    median: float
    best: float
    calls: int
    rounds: tuple[float, ...] = ()

    @property
    def spread(self) -> float:
        """Return the difference of the highest and the lowest round, relative to the median."""
        return (
            (max(self.rounds) - min(self.rounds)) / self.median
            if self.rounds and self.median
            else 0.0
        )


def interleave(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int,
    seconds: float,
    on_round: Callable[[int, int], None] | None = None,
) -> dict[str, Timing]:
    """Time each contender in `rounds` rounds of about `seconds` in all; the order rotates from round to round."""
    names = list(contenders)
    calls = {
        name: _calls_per_round(contenders[name], seconds / rounds / len(names)) for name in names
    }
    samples: dict[str, list[list[float]]] = {name: [] for name in names}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for number in range(rounds):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                _rest()
                samples[name].append(_sample(contenders[name], calls[name]))
            if on_round:
                on_round(number + 1, rounds)
    finally:
        if collecting:
            gc.enable()
    return {name: _timing(samples[name]) for name in names}


def _rest() -> None:
    """Return when the threads that the last contender left spinning sleep: they would take a core from the next."""
    for _ in range(MAX_RESTS):
        before = time.process_time()
        time.sleep(REST_SECONDS)
        if time.process_time() - before < REST_SECONDS / 4:
            return


def _sample(run: Callable[[], object], calls: int) -> list[float]:
    run()  # warm the caches, which the other contenders have just filled
    clock = time.perf_counter
    result = []
    for _ in range(calls):
        start = clock()
        run()
        result.append(clock() - start)
    return result


def _calls_per_round(run: Callable[[], object], seconds: float) -> int:
    run()
    start = time.perf_counter()
    run()
    once = max(time.perf_counter() - start, 1e-7)
    return max(3, min(2000, int(seconds / once)))


def _timing(samples: Sequence[Sequence[float]]) -> Timing:
    medians = tuple(statistics.median(s) for s in samples)
    best, calls = min(min(s) for s in samples), sum(map(len, samples))
    return Timing(statistics.median(medians), best, calls, medians)


def pin_to(threads: int) -> None:
    """Let this process, with the threads it has and will have, run on the first `threads` of its CPUs only."""
    allowed = sorted(os.sched_getaffinity(0))
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it ended
            os.sched_setaffinity(int(thread), allowed[:threads])


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """Keep the process on its first CPUs while it measures."""
    allowed = os.sched_getaffinity(0)
    pin_to(threads)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def load_warning(threads: int) -> str | None:
    """A warning if other processes keep the CPUs busy, which makes the figures unreliable."""
    busy = os.getloadavg()[0]
    spare = (os.cpu_count() or 1) - threads
    if busy > spare + 0.5:
        return f"the machine is loaded (load average {busy:.1f} on {os.cpu_count()} CPUs): times are not reliable"
    return None
