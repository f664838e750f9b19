"""`graphc cache ls`: the contents of the compile cache."""

from __future__ import annotations

import argparse
import time

from ...base.durations import shown_age
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
        lines.append(
            f"{entry.key[:12]}  {size:<32}  {shown_age(time.time() - entry.used):>14}  {entry.model}"
        )
    models = [vars(entry) for entry in held.models]
    answer(args, {**facts_of(found, held), "models": models}, [*lines, summary_of(found, held)])
    return 0
