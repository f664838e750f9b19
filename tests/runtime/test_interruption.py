"""Signals that arrive inside native code: Ctrl-C ends the call soon, other handlers run meanwhile."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.control import endless

SIZE = 5120
LEAST = np.int64(np.iinfo(np.int64).min)


def long_kernel() -> Graph:
    """A matmul that takes a second of one core, in one parallel loop."""
    graph = Graph("long")
    x, w = (graph.make_input(LogicalTensor(F32, (SIZE, SIZE)), name) for name in "xw")
    graph.make_output(graph.make("matmul_core", [x, w]).outputs[0], "y")
    return graph


@contextmanager
def handler(number: signal.Signals, handle: object) -> Iterator[None]:
    before = signal.signal(number, handle)  # type: ignore[arg-type]
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def interrupted(seconds: float) -> Iterator[None]:
    """The block is ended by Ctrl-C after `seconds`."""
    timer = threading.Timer(seconds, signal.raise_signal, (signal.SIGINT,))
    with handler(signal.SIGINT, signal.default_int_handler), pytest.raises(KeyboardInterrupt):
        timer.start()
        try:
            yield
        finally:
            timer.join()


@pytest.fixture(scope="module")
def endless_model() -> graphc.CompiledModel:
    return graphc.compile(endless(), threads=1)


def test_an_endless_loop_ends(endless_model: graphc.CompiledModel) -> None:
    with interrupted(0.3):
        endless_model(np.int64(0))
    assert endless_model(LEAST) == LEAST  # and the model is as before


def test_a_bound_call_raises_too_and_runs_again(endless_model: graphc.CompiledModel) -> None:
    x, y = np.zeros((), np.int64), np.zeros((), np.int64)
    call = endless_model.bind({"x": x}, [y])
    for _ in range(3):
        x[...], y[...] = 0, 0
        with interrupted(0.05):
            call()
        x[...] = np.iinfo(np.int64).max  # wraps in the first round
        call()
        assert y == LEAST


def test_what_a_handler_raises_is_what_the_call_raises(
    endless_model: graphc.CompiledModel,
) -> None:
    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("too late")

    with handler(signal.SIGALRM, late), pytest.raises(TimeoutError, match="too late"):
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        endless_model(np.int64(0))


def test_a_handler_may_run_models_and_the_call_goes_on(
    endless_model: graphc.CompiledModel,
) -> None:
    """The second signal ends the call; the first only counts, with a call of the same model inside."""
    seen: list[int] = []

    def count(number: int, frame: FrameType | None) -> None:
        seen.append(int(endless_model(LEAST)))
        if len(seen) == 2:
            raise TimeoutError

    with handler(signal.SIGALRM, count):
        try:
            with pytest.raises(TimeoutError):
                signal.setitimer(signal.ITIMER_REAL, 0.1, 0.3)
                endless_model(np.int64(0))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    assert seen == [LEAST, LEAST]


@pytest.mark.exhaustive
@pytest.mark.parametrize("threads", [1, 2])
def test_a_long_parallel_loop_is_cut_short(threads: int) -> None:
    model = graphc.compile(long_kernel(), threads=threads)
    x, ended = np.ones((SIZE, SIZE), np.float32), False
    with interrupted(0.1):
        model(x, x)
        ended = True
    assert not ended


def test_calls_of_other_threads_go_on(endless_model: graphc.CompiledModel) -> None:
    """Ctrl-C ends the call of the main thread, not those of others."""
    soon = np.iinfo(np.int64).max - (1 << 27)  # number of rounds before it wraps
    results: list[int] = []
    other = threading.Thread(target=lambda: results.append(int(endless_model(np.int64(soon)))))
    other.start()
    with interrupted(0.2):
        endless_model(np.int64(0))
    other.join()
    assert results == [LEAST]
