"""Running Python and the command line in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]

PATIENCE = 900.0
"""Seconds until a process hangs: far more than any takes on a slow or busy machine."""

Completed = subprocess.CompletedProcess[str]


def run_python(
    *words: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    timeout: float = PATIENCE,
) -> Completed:
    """Run `python *words` and return its exit code, stdout and stderr as text; a signal gives a negative code.

    `cwd` is a folder outside the checkout unless given, so that only the installed graphc is found; `env` adds to
    the environment.
    """
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd or tempfile.gettempdir(),
        env={**os.environ, **(env or {})},
        input=stdin,
        timeout=timeout,
        capture_output=True,
        text=True,
        check=False,
    )


def run_cli(
    *words: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    timeout: float = PATIENCE,
) -> Completed:
    """Run `python -m graphc *words`; see `run_python`."""
    return run_python("-m", "graphc", *words, cwd=cwd, env=env, stdin=stdin, timeout=timeout)
