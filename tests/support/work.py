"""The work of a call, counted and not timed: lines of graphc's code that run, by function."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import graphc

_ROOT = str(Path(graphc.__file__).parent)


class _Tracer:
    """Counts the lines that one function runs."""

    def __init__(self) -> None:
        self.lines = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> _Tracer:
        if event == "line":
            self.lines += 1
        return self


def lines_run(call: Callable[[], object]) -> Counter[str]:
    """Lines run in each function of graphc, every round of a loop or comprehension counted."""
    tracers: dict[int, tuple[CodeType, _Tracer | None]] = {}

    def entered(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if (
            id(code) not in tracers
        ):  # hashing the code itself, at each call, would take most of the time
            ours = code.co_filename.startswith(_ROOT)
            tracers[id(code)] = code, _Tracer() if ours else None
        return tracers[id(code)][1]

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        call()
    finally:
        sys.settrace(before)
    named: Counter[str] = Counter()
    for code, tracer in tracers.values():
        if tracer and tracer.lines:
            file = code.co_filename.removeprefix(_ROOT)
            named[f"{file}:{code.co_firstlineno} {code.co_qualname}"] += tracer.lines
    return named


def superlinear(small: Counter[str], large: Counter[str], times: float, least: int) -> list[str]:
    """Functions in which `large` counts more than `times` what `small` does, and at least `least` lines."""
    return [
        f"{name}: {small[name]} -> {count}"
        for name, count in large.items()
        if count >= least and count > times * max(small[name], 1)
    ]
