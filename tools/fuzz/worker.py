"""A process that checks cases: a line of JSON each on stdin, a line of JSON for its outcome on stdout.

A line is `{"seed": 0, "index": 7}` or a case in full (`Case.to_json`, `FileCase.to_json`).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import signal
import sys
import warnings
from typing import Any

from .case import Case, FileCase, case_of
from .file_check import check_any
from .outcome import Outcome

_STEADY = (0, 100)
"""Cases after which what is in memory is modules and tables: the collector need not go over them with every case."""


def main() -> None:
    """Check what comes until stdin ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--memory", type=int, default=0, help="bytes of address space, 0 for any")
    limit = parser.parse_args().memory
    if limit:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and ends us
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whoever prints must not write between the answers
    for number, line in enumerate(sys.stdin):
        print(json.dumps(vars(_answer(json.loads(line)))), file=answers)
        if number in _STEADY:
            gc.collect()
            gc.freeze()


def _answer(job: dict[str, Any]) -> Outcome:
    if "graph" in job:
        return check_any(Case.from_json(job))
    if "model" in job:
        return check_any(FileCase.from_json(job))
    routes = tuple(job["routes"]) if "routes" in job else None
    return check_any(case_of(job["seed"], job["index"], routes))


if __name__ == "__main__":
    main()
