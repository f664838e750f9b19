"""`graphc roofline`: the multiply-add peak and the bandwidth of each level of memory of this machine."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from .model_arguments import TARGETS, add_threads_argument
from .terminal import say

if TYPE_CHECKING:
    from ..bench.roofline import Roofline

NAME = "roofline"
HELP = "Measure this machine's compute peak and memory bandwidths (stored for `profile`)."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--target", choices=TARGETS, default="native", help="instruction set")
    add_threads_argument(parser)
    parser.add_argument("--fresh", action="store_true", help="measure again, even if known")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def run(args: argparse.Namespace) -> int:
    """Print the roofs; measure them if they are not known yet."""
    from dataclasses import asdict

    from ..bench.measure import load_warning
    from ..bench.roofline import default_file, roofline
    from ..codegen.host import target_for
    from ..runtime.threadpool import resolve_threads

    threads = resolve_threads(args.threads)
    if warning := load_warning(threads):
        print(f"graphc: warning: {warning}", file=sys.stderr)
    found = roofline(target_for(args.target), threads, args.fresh)
    if args.json:
        say(json.dumps(asdict(found)))
        return 0
    say(f"{found.cpu}, {found.isa}, {found.threads} threads")
    say(f"{'compute':<8} {found.gflops:10.1f} GFLOP/s")
    for level in found.levels:
        held = f"up to {level.capacity >> 10} KiB" if level.capacity else "anything larger"
        balance = found.gflops / level.gbytes_per_second
        say(
            f"{level.name:<8} {level.gbytes_per_second:10.1f} GB/s   {held}, "
            f"binds below {balance:.2f} FLOP/byte"
        )
    say(measured_text(found))
    kept = "kept" if default_file().exists() else "could not be kept"
    say(f"{kept} in {default_file()}")
    return 0


def measured_text(found: Roofline) -> str:
    """When the roofs were measured, and how far repeats were apart."""
    import time

    age = max(time.time() - found.measured, 0.0)
    unit, size = next(((u, s) for u, s in _UNITS if age >= s), _UNITS[-1])
    text = f"measured {age / size:.0f} {unit} ago, best two of several within {100 * found.spread:.1f} %"
    return (
        text
        if found.steady
        else f"{text}: the machine was busy, so they are measured again in a while"
    )


_UNITS = (("days", 86400), ("hours", 3600), ("minutes", 60), ("seconds", 1))
