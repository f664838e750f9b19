"""How much work a call is, counted and not timed: lines of graphc's code that run, by function."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import graphc

_ROOT = str(Path(graphc.__file__).parent)


def lines_run(call: Callable[[], object]) -> Counter[str]:
    """Lines run in each function of graphc, every round of a loop or comprehension counted."""
    counts: Counter[CodeType] = Counter()

    def inside(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            counts[frame.f_code] += 1
        return inside

    def entered(frame: FrameType, event: str, _: Any) -> Any:
        return inside if frame.f_code.co_filename.startswith(_ROOT) else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        call()
    finally:
        sys.settrace(before)
    named: Counter[str] = Counter()
    for code, count in counts.items():
        file = code.co_filename.removeprefix(_ROOT)
        named[f"{file}:{code.co_firstlineno} {code.co_qualname}"] += count
    return named


def superlinear(small: Counter[str], large: Counter[str], times: float, least: int) -> list[str]:
    """Functions in which `large` counts more than `times` what `small` does, and at least `least` lines."""
    return [
        f"{name}: {small[name]} -> {count}"
        for name, count in large.items()
        if count >= least and count > times * max(small[name], 1)
    ]
