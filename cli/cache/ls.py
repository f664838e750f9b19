"""`graphc cache ls`: the contents of the compile cache."""

from __future__ import annotations

import argparse
import time

from ..model_arguments import add_options
from ..terminal import answer
from .opened import facts_of, opened_cache, summary_of

HELP = "List the compiled models of the cache, and the sizes of its kernels and weights"
KEYWORDS = ("list", "status")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_options(parser, "json")


def run(args: argparse.Namespace) -> int:
    """Print a line for each model. Raise UserError if the cache is turned off or must not be used."""
    found = opened_cache()
    held = found.contents()
    lines = []
    for entry in held.models:
        size = f"{entry.size_bytes / 1e6:9.1f} MB + {entry.shared_bytes / 1e6:.1f} MB shared"
        lines.append(f"{entry.key[:12]}  {size:<32}  {_ago(entry.used):>9}  {entry.model}")
    models = [vars(entry) for entry in held.models]
    answer(args, {**facts_of(found, held), "models": models}, [*lines, summary_of(found, held)])
    return 0


def _ago(moment: float) -> str:
    """The age in the largest unit that fits."""
    seconds = max(0.0, time.time() - moment)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
