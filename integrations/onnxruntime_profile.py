"""Times of the runs of a session, in the format of Chrome's trace viewer, as ONNX Runtime writes them."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ..base.whole_file import write_file

_Result = TypeVar("_Result")


class RunTimes:
    """The runs since the session was made; `start` is that time in nanoseconds of `time.monotonic_ns`."""

    def __init__(self) -> None:
        self.start = time.monotonic_ns()
        self._events: list[dict[str, Any]] = []

    def timed(self, action: Callable[[], _Result]) -> _Result:
        """Return what a run returns, and keep its time."""
        begin = time.monotonic_ns()
        result = action()
        self._events.append({
            "cat": "Session", "name": "model_run", "ph": "X", "pid": os.getpid(), "tid": threading.get_native_id(),
            "ts": (begin - self.start) // 1000, "dur": (time.monotonic_ns() - begin) // 1000, "args": {},
        })  # fmt: skip
        return result

    def write(self, prefix: str) -> str:
        """Write the file; return its name, which begins with `prefix`. Raise UserError if the system refuses it."""
        path = f"{prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        write_file(path, json.dumps(self._events))
        return path
